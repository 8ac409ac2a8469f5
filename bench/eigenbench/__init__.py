"""The cost of virtual time and of the library, compared with their peers in one alternating run.

Read in this order: `levels` (what is compared), `suites`, `moments`, `named`, `changes`, `members`,
`attach`, `redis`, `containers` and `podman` (what is measured; `supervisors` serves `members`; `bundles`, `runtimes`, `ground` and `timing` serve
containers), `reads`, `bounds`, `sleeps` and `events` (the library's clock, sleeps and events,
measured by the Rust program that `precision` builds and runs; `drift` is for a separate script),
`runner` (the order), `stats` and `targets` (the evaluation), `table`, `columns` and `document`
(the output).
"""
