"""The style sheet of the report: one page, light and dark, nothing from elsewhere."""

STYLE = """
:root {
  color-scheme: light dark;
  --page: #ffffff; --ink: #1b1f24; --faint: #5d6673; --rule: #dde1e6; --panel: #f6f7f9; --bad: #b3261e; --good: #1a7f4b;
  --series-0: #0b62c4; --series-1: #c2500a; --series-2: #12805c; --series-3: #8a3ffc;
  --series-4: #b0126a; --series-5: #6b6f00; --series-6: #007d9c; --series-7: #8d4a1b;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #14171b; --ink: #e8eaed; --faint: #a0a8b4; --rule: #343a42;
    --panel: #1d2126; --bad: #ff8a80; --good: #6fd6a0;
    --series-0: #6cb0ff; --series-1: #ff9e57; --series-2: #4fd1a5; --series-3: #c1a0ff;
    --series-4: #ff8cc6; --series-5: #d6d14a; --series-6: #54d3f0; --series-7: #dba37a;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.55 system-ui, "Segoe UI", Roboto, sans-serif; }
main { max-width: 74rem; margin: 0 auto; padding: 2.5rem 1.5rem 5rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .3rem; letter-spacing: -.01em; }
h2 { font-size: 1.25rem; margin: 3rem 0 .3rem; padding-top: 1rem; border-top: 1px solid var(--rule); }
p { max-width: 46rem; margin: .4rem 0 1rem; }
.lead, .note, caption, dt { color: var(--faint); }
.good { color: var(--good); font-weight: 600; }
.bad { color: var(--bad); font-weight: 600; }
nav { margin: 1rem 0 0; display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; }
a { color: var(--series-0); text-decoration: none; }
a:hover { text-decoration: underline; }
.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(18rem, 1fr)); gap: 1rem; margin: 1.5rem 0; }
.facts section { background: var(--panel); border-radius: 8px; padding: .9rem 1.1rem; }
.facts h3 { margin: 0 0 .4rem; font-size: .8rem; text-transform: uppercase; letter-spacing: .06em;
  color: var(--faint); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem .9rem; margin: 0; }
dd { margin: 0; overflow-wrap: anywhere; }
pre { background: var(--panel); border-radius: 8px; padding: 1rem; overflow-x: auto; font-size: .85rem;
  line-height: 1.4; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .86rem;
  font-variant-numeric: tabular-nums; margin: .6rem 0; }
th, td { padding: .28rem .6rem; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--rule); }
th { font-weight: 600; color: var(--faint); position: sticky; top: 0; background: var(--page); }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
tr.size > td { border-top: 2px solid var(--rule); }
tbody tr:hover td { background: var(--panel); }
figure { margin: 1rem 0; }
figure svg { width: 100%; height: auto; display: block; }
figcaption { color: var(--faint); font-size: .88rem; max-width: 46rem; }
details { margin: .8rem 0; }
summary { cursor: pointer; color: var(--series-0); }
@media print { nav, details summary { display: none; } }
"""
