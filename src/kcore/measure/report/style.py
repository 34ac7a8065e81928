"""The style sheet of the reports, for light and dark, wide and narrow screens; it loads no other file."""

from kcore.measure.report.palette import DARK, LIGHT, css

STYLE = (
    f"""
:root {{ color-scheme: light dark; {css(LIGHT)} }}
@media (prefers-color-scheme: dark) {{ :root {{ {css(DARK)} }} }}
"""
    + """
* { box-sizing: border-box; }
[hidden] { display: none !important; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.55 system-ui, "Segoe UI", Roboto, sans-serif; }
main { max-width: 160rem; margin: 0 auto; padding: 2rem 1.5rem 5rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .3rem; letter-spacing: -.01em; overflow-wrap: anywhere; }
h2 { font-size: 1.25rem; margin: 3rem 0 .3rem; padding-top: 1rem; border-top: 1px solid var(--rule); }
h3 { font-size: 1rem; margin: 1.6rem 0 .2rem; }
p, .verdict { max-width: 50rem; margin: .4rem 0 1rem; overflow-wrap: anywhere; }
ul { max-width: 50rem; margin: .2rem 0 1rem; padding-left: 1.2rem; }
.lead, .note, caption, dt { color: var(--faint); }
.good { color: var(--good); font-weight: 600; }
.bad { color: var(--bad); font-weight: 600; }
.warn { color: var(--warn); }
.answer { font-size: 1.35rem; line-height: 1.4; max-width: 70rem; margin: 1rem 0 .6rem; }
.answer.bad { font-weight: 600; }
.mark { display: inline-block; margin-left: .4rem; padding: 0 .45rem; border-radius: 999px; border: 1px solid;
  font-size: .74rem; line-height: 1.35; font-weight: 600; cursor: help; }
.mark.noisy, .mark.doubtful { color: var(--warn); }
.mark.invalid { color: var(--bad); }
nav { margin: 1rem 0 0; display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; }
a { color: var(--kcore); text-decoration: none; }
a:hover { text-decoration: underline; }
.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 22rem), 1fr)); gap: 1rem;
  margin: 1.5rem 0; }
.facts section { background: var(--panel); border-radius: 8px; padding: .9rem 1.1rem; }
.facts h3 { margin: 0 0 .4rem; font-size: .8rem; text-transform: uppercase; letter-spacing: .06em;
  color: var(--faint); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem .9rem; margin: 0; }
dd { margin: 0; overflow-wrap: anywhere; }
pre { background: var(--panel); border-radius: 8px; padding: 1rem; overflow-x: auto; font-size: .85rem;
  line-height: 1.4; white-space: pre-wrap; overflow-wrap: anywhere; }
.tools { display: flex; flex-wrap: wrap; gap: .5rem .8rem; align-items: center; margin: .6rem 0 .2rem;
  font-size: .86rem; color: var(--faint); }
.tools input { font: inherit; color: var(--ink); background: var(--page); border: 1px solid var(--rule);
  border-radius: 6px; padding: .2rem .5rem; width: 14rem; max-width: 100%; }
button { font: inherit; color: var(--kcore); background: none; border: 1px solid var(--rule); border-radius: 6px;
  padding: .2rem .6rem; cursor: pointer; }
button:hover { background: var(--panel); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; min-width: min(100%, 40rem); font-size: .84rem;
  font-variant-numeric: tabular-nums; margin: .4rem 0 .6rem; }
th, td { padding: .26rem .45rem; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--rule);
  vertical-align: baseline; }
th { font-weight: 600; color: var(--faint); background: var(--page); }
.text { text-align: left; white-space: normal; min-width: 7rem; overflow-wrap: break-word; }
th:first-child, td:first-child { text-align: left; white-space: normal; padding-left: 0; min-width: 8rem; }
tr.size > td { border-top: 2px solid var(--rule); }
tbody tr:hover td { background: var(--panel); }
tr.bad, tr.good { font-weight: 400; }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 23rem), 1fr)); gap: 1.2rem 1.6rem;
  align-items: start; }
.charts figure:has(details[open]) { grid-column: 1 / -1; }
.packed { columns: 23rem; column-gap: 1.6rem; }
.packed figure { break-inside: avoid; margin: 0 0 1.4rem; }
.beside { display: flex; flex-wrap: wrap; gap: .4rem 3rem; align-items: flex-start; }
.beside > * { min-width: 0; max-width: 100%; }
.beside > figure { flex: 1 1 23rem; max-width: 34rem; margin: 0; }
.save { display: flex; gap: .4rem; font-size: .78rem; margin: .2rem 0; }
.save button { padding: .05rem .5rem; }
figure { margin: .8rem 0; min-width: 0; }
figure svg { width: 100%; max-width: 34rem; height: auto; display: block; overflow: visible; }
svg text { font-family: system-ui, "Segoe UI", Roboto, sans-serif !important; }
svg * { stroke-linejoin: round; stroke-linecap: butt; }
figcaption { color: var(--faint); font-size: .86rem; max-width: 50rem; }
details { margin: .5rem 0; }
summary { cursor: pointer; color: var(--kcore); font-size: .86rem; }
.tip { pointer-events: all; }
.tip:hover { filter: brightness(1.25); }
#hover { position: absolute; z-index: 9; pointer-events: none; max-width: 22rem; padding: .35rem .6rem;
  border-radius: 6px; background: var(--ink); color: var(--page); font-size: .82rem; line-height: 1.4;
  white-space: pre-line; }
@media (max-width: 44rem) {
  main { padding: 1.2rem 1rem 4rem; }
  h1 { font-size: 1.5rem; }
  .tools input { width: 100%; }
  table, tbody, tr, td { display: block; width: 100%; min-width: 0; }
  thead { display: none; }
  tr { border: 1px solid var(--rule); border-radius: 8px; padding: .35rem .7rem; margin: .5rem 0; }
  td, td:first-child, tr.size > td { display: flex; justify-content: space-between; gap: 1rem; border: 0;
    padding: .1rem 0; min-width: 0; text-align: right; white-space: normal; }
  td:first-child { font-weight: 600; text-align: left; }
  td, .text { overflow-wrap: anywhere; min-width: 0; }
  td:empty, tr.size > td:empty { display: none; }
  td::before { content: attr(data-name); color: var(--faint); font-weight: 400; text-align: left; flex: none; }
  td:first-child::before { content: none; }
}
@media print { nav, .tools, .save, summary { display: none; } }
"""
)
