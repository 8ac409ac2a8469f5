"""A program sleeps for ten days, which pass at once."""

from subprocess import PIPE

from eigentime.timeline import Timeline

with Timeline(date="2038-01-19T03:14:00Z", rate=60) as timeline:
    program = timeline.popen(["sh", "-c", "sleep 10d; date -u +%F"], stdout=PIPE, text=True)
    timeline.wait(idle=True)  # it has started, and waits
    timeline.leap("11d")
    print(program.communicate()[0].strip())  # 2038-01-30
