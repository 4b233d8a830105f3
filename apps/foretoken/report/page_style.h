// The style sheet of report pages. Series colours stay apart for the colour-blind and have a contrast of 4.5 or more to their
// background in both schemes.
#pragma once

#include <string_view>

namespace foretoken::cli {

inline constexpr std::string_view kPageStyle = R"css(
:root {
  --paper: #ffffff; --panel: #f6f7f9; --ink: #1b1f24; --faint: #59626d; --grid: #d9dde2; --rule: #c3c9d0; --on: #ffffff;
  --c0: #0064a6; --c1: #b84300; --c2: #00755a; --c3: #9c3f86; --c4: #7a5b00; --c5: #4b5563; --c6: #00707f; --c7: #1b1f24;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #14171b; --panel: #1c2026; --ink: #e6e9ed; --faint: #a0a9b4; --grid: #333a43; --rule: #454d58; --on: #14171b;
    --c0: #5db4f0; --c1: #ff9248; --c2: #35c79c; --c3: #ea93c9; --c4: #e3c13f; --c5: #a9b3c0; --c6: #63d2e2; --c7: #f5f7fa;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 1320px; margin: 0 auto; padding: 1.5rem 1rem 3rem; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .5rem; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 .6rem; }
p, dd { max-width: 75ch; overflow-wrap: anywhere; }
pre { background: var(--panel); border: 1px solid var(--rule); border-radius: 6px; padding: .7rem .9rem; white-space: pre-wrap;
  overflow-wrap: anywhere; }
code { font: .9rem/1.5 ui-monospace, monospace; }
dt { font-weight: 600; }
dd { margin: 0 0 .5rem 0; }
.scroll { overflow-x: auto; margin: 0 0 1.2rem; }
table { border-collapse: collapse; font-size: .92rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: var(--faint); padding: 0 0 .35rem; }
th, td { padding: .35rem .8rem .35rem 0; border-bottom: 1px solid var(--grid); text-align: right; white-space: nowrap; }
thead th { border-bottom-color: var(--rule); vertical-align: bottom; white-space: normal; }
th:first-child { text-align: left; padding-right: 1.2rem; }
th { font-weight: 600; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 30rem), 1fr)); gap: 1.2rem; }
figure { margin: 0; padding: .9rem 1rem; background: var(--panel); border: 1px solid var(--grid); border-radius: 8px; }
figcaption { margin: 0 0 .5rem; }
figcaption span, .nothing { color: var(--faint); }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: .1rem 1.1rem; margin: 0 0 .5rem; padding: 0; font-size: .9rem; }
.key { vertical-align: -1px; }
.chart { display: block; width: 100%; height: auto; font: 13px system-ui, sans-serif; }
.chart text { fill: var(--ink); }
.chart .tick, .chart .label { fill: var(--faint); }
.chart .on { fill: var(--on); }
.grid { stroke: var(--grid); fill: none; }
.axis { stroke: var(--rule); fill: none; }
.line { stroke: var(--c); stroke-width: 2; fill: none; stroke-linejoin: round; }
.fill { fill: var(--c); }
.part { stroke: var(--panel); stroke-width: 1.5; }
.s0 { --c: var(--c0); } .s1 { --c: var(--c1); } .s2 { --c: var(--c2); } .s3 { --c: var(--c3); }
.s4 { --c: var(--c4); } .s5 { --c: var(--c5); } .s6 { --c: var(--c6); } .s7 { --c: var(--c7); }
@media print { figure { break-inside: avoid; } }
)css";

}  // namespace foretoken::cli
