"""What virtual time costs, against its peers, in one alternating run.

Read in this order: `levels` (what is compared), `suites`, `named`, `changes`,
`attach` and `redis` (what is measured), `runner` (in which order), `stats` and
`targets` (what is made of it), `table`, `columns` and `document` (how it is
shown).
"""
