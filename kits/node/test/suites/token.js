// Whether a token that is valid until 18 February 2038 is valid on a timeline.
export async function valid(timeline) {
  const { stdout } = await timeline.execFile("date", ["-u", "+%F"]);
  return stdout.trim() < "2038-02-18";
}
