"""What virtual time and the library cost, against their peers, in one alternating run.

Read in this order: `levels` (what is compared), `suites`, `named`, `changes`,
`attach`, `redis`, `containers` and `podman` (what is measured; `bundles`,
`runtimes`, `ground` and `timing` serve containers), `reads`, `bounds`, `sleeps` and
`events` (the library's clock, sleeps and events, by the Rust program that `precision`
builds and asks; `drift` is for a script of its own), `runner` (in which order),
`stats` and `targets` (what is made of it), `table`, `columns` and `document` (how
it is shown).
"""
