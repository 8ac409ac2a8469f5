"""Events that are a unit of seconds apart, in the order in which they come."""

import asyncio
import sys
import time


async def main() -> None:
    unit = float(sys.argv[1])
    begin = time.monotonic()

    async def deadline() -> None:
        try:
            await asyncio.wait_for(asyncio.Event().wait(), unit * 5.5)
        except asyncio.TimeoutError:
            print("deadline", flush=True)

    asyncio.get_running_loop().call_later(
        unit * 1.5, lambda: print("timer", flush=True)
    )
    waits = asyncio.create_task(deadline())
    for tick in range(1, 25):
        await asyncio.sleep(begin + tick * unit - time.monotonic())
        print(f"tick {tick}", flush=True)
    await waits
    print(f"passed={time.monotonic() - begin}", flush=True)


asyncio.run(main())
