"use strict";
// Charts are drawn when they come near the window, and those that are seen when there is time.
(() => {
  // A panel is at least this wide.
  const LEAST_PX = 150;
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const plots = [...document.querySelectorAll(".plot")];
  const text = (id) => document.getElementById(id).textContent;
  const configs = plots.length ? JSON.parse(text("themes")) : {};
  const theme = () => root.dataset.theme ?? (dark.matches ? "dark" : "light");

  // What render.py has packed.
  const unpacked = (id) => {
    const bytes = Uint8Array.from(atob(text(id)), (each) => each.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).json();
  };

  const embed = (plot, spec) =>
    window.vegaEmbed(plot, spec, {
      mode: "vega-lite",
      // Expressions are interpreted: the page's policy allows no scripts that are made there.
      ast: true,
      renderer: "svg",
      actions: { export: true, source: false, compiled: false, editor: false },
      downloadFileName: plot.dataset.chart.replace(/^data-/, ""),
      config: configs[plot.dataset.theme],
    });

  // As wide as there is room: how wide the words at the axes are, drawing it tells.
  const draw = async (plot) => {
    if (plot.dataset.state === "drawing") return;
    Object.assign(plot.dataset, { state: "drawing", theme: theme(), width: plot.clientWidth });
    try {
      const spec = await unpacked(plot.dataset.chart);
      const width = plot.clientWidth - 1;
      spec.columns = Math.max(1, Math.min(spec.columns, Math.floor(width / LEAST_PX)));
      spec.spec.width = Math.floor(width / spec.columns);
      const first = await embed(plot, spec);
      const over = plot.querySelector("svg").width.baseVal.value - width;
      first.finalize();
      spec.spec.width = Math.max(spec.spec.width - Math.ceil(over / spec.columns), LEAST_PX);
      plot.drawn?.finalize();
      plot.drawn = await embed(plot, spec);
      plot.dataset.state = "drawn";
    } catch (error) {
      plot.dataset.state = "failed";
      plot.textContent = `This chart could not be drawn: ${error.message}`;
    }
  };

  const near = new IntersectionObserver(
    (entries) => {
      for (const { target, isIntersecting } of entries) {
        if (!isIntersecting) continue;
        near.unobserve(target);
        draw(target);
      }
    },
    { rootMargin: "500px 0px" },
  );
  plots.forEach((plot) => near.observe(plot));

  // So that they are there when the page is printed.
  const idle = window.requestIdleCallback ?? setTimeout;
  const drawRest = async () => {
    const plot = plots.find((each) => !each.dataset.state && each.clientWidth);
    if (!plot) return;
    near.unobserve(plot);
    await draw(plot);
    idle(drawRest);
  };
  window.addEventListener("load", () => idle(drawRest));

  // Those that are drawn and stale are drawn anew, when they are seen.
  const redraw = () => {
    for (const plot of plots.filter((each) => each.dataset.state === "drawn")) {
      const isStale =
        plot.dataset.theme !== theme() || +plot.dataset.width !== plot.clientWidth;
      if (isStale) near.observe(plot);
    }
  };
  window.addEventListener("resize", redraw);
  dark.addEventListener("change", redraw);
  for (const choice of document.querySelectorAll("input[name=theme]")) {
    choice.checked = choice.value === (root.dataset.theme ?? "auto");
    choice.addEventListener("change", () => {
      window.chooseTheme(choice.value);
      redraw();
    });
  }

  // Of a choice one option is seen, the selected one.
  const choose = (choice, key) => {
    choice.querySelector("select").value = key;
    for (const option of choice.querySelectorAll(".option")) option.hidden = option.id !== key;
  };
  for (const choice of document.querySelectorAll(".choice")) {
    const select = choice.querySelector("select");
    // A page that is come back to may have another one selected.
    choose(choice, select.value);
    select.addEventListener("change", () => choose(choice, select.value));
  }

  // A link to something in a fold opens it, and one to an option chooses that.
  const unfold = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const option = target?.closest(".option[hidden]");
    let fold = target?.closest("details:not([open])");
    if (!option && !fold) return;
    if (option) choose(option.closest(".choice"), option.id);
    for (; fold; fold = fold.parentElement.closest("details")) fold.open = true;
    target.scrollIntoView();
  };
  window.addEventListener("hashchange", unfold);
  unfold();

  // The contents say where the reader is, and are folded where they would fill the window.
  const contents = document.querySelector("nav details");
  const wideEnough = matchMedia("(min-width: 68rem)");
  const fit = () => contents.toggleAttribute("open", wideEnough.matches);
  fit();
  wideEnough.addEventListener("change", fit);
  const links = new Map(
    [...contents.querySelectorAll("a")].map((link) => [link.hash.slice(1), link]),
  );
  const inView = new Set();
  const where = new IntersectionObserver(
    (entries) => {
      for (const { target, isIntersecting } of entries) {
        if (isIntersecting) inView.add(target.id);
        else inView.delete(target.id);
      }
      const first = [...links.keys()].find((id) => inView.has(id));
      for (const [id, link] of links) {
        if (id === first) link.setAttribute("aria-current", "true");
        else link.removeAttribute("aria-current");
      }
    },
    { rootMargin: "-15% 0px -70% 0px" },
  );
  links.forEach((_, id) => where.observe(document.getElementById(id)));
})();
