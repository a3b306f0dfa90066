/** The one chart of docs/performance.md: how fast the benchmark image is read in each way. */

import { toFileName, toPipeName } from './cases/restore.ts';
import { mountName } from './cases/sequential.ts';
import { farName, loopbackName, nearName } from './cases/server.ts';
import { bareLoopName } from './support/bare-loop.ts';
import { decodeLimitName } from './support/decode-limit.ts';
import { borgName, resticName } from './support/peers.ts';
import type { CaseResult } from './support/report.ts';
import { mediansOf } from './support/statistics.ts';

interface Bar {
  readonly contestant: string;
  readonly label: string;
  readonly kind: 'limit' | 'ours' | 'peer';
}

interface Group {
  readonly title: string;
  readonly caseName: string;
  readonly bars: readonly Bar[];
}

const groups: readonly Group[] = [
  {
    title: 'dd of an image in a local datastore',
    caseName: 'sequential',
    bars: [
      { contestant: decodeLimitName, label: 'limit: all cores decode', kind: 'limit' },
      { contestant: mountName, label: 'pbsfs mount', kind: 'ours' },
      { contestant: borgName, label: 'borg mount', kind: 'peer' },
      { contestant: resticName, label: 'restic mount', kind: 'peer' },
    ],
  },
  {
    title: 'dd of an image on a server',
    caseName: 'server',
    bars: [
      { contestant: bareLoopName, label: 'limit: bare loop', kind: 'limit' },
      { contestant: loopbackName, label: 'pbsfs mount', kind: 'ours' },
      { contestant: nearName, label: 'pbsfs mount, 5 ms', kind: 'ours' },
      { contestant: farName, label: 'pbsfs mount, 20 ms', kind: 'ours' },
    ],
  },
  {
    title: 'restore of that image',
    caseName: 'restore',
    bars: [
      { contestant: bareLoopName, label: 'limit: bare loop', kind: 'limit' },
      { contestant: toPipeName, label: 'to a pipe', kind: 'ours' },
      { contestant: toFileName, label: 'to a file', kind: 'ours' },
    ],
  },
];

const width = 720;
const barStart = 190;
const barEnd = 640;
const barHeight = 16;
const barStep = 22;
const titleStep = 30;

const style = `
  text { font: 13px system-ui, sans-serif; fill: #24292f }
  .title { font-weight: 600 }
  .label { text-anchor: end }
  .limit { fill: #afb8c1 } .ours { fill: #0969da } .peer { fill: #bc8f3f }
  @media (prefers-color-scheme: dark) {
    text { fill: #d0d7de }
    .limit { fill: #57606a } .ours { fill: #2f81f7 }
  }`;

/** An SVG; what was not measured is left out. */
export function drawChart(results: readonly CaseResult[]): string {
  const shown = groups.map((group) => ({ ...group, bars: measuredBars(group, results) }));
  const most = Math.max(...shown.flatMap(({ bars }) => bars.map(({ speed }) => speed)));
  const parts: string[] = [];
  let y = 0;
  for (const { title, bars } of shown.filter((group) => group.bars.length > 0)) {
    y += titleStep;
    parts.push(text(0, y - 8, title, 'title'));
    for (const { label, kind, speed } of bars) {
      const length = Math.round(((barEnd - barStart) * speed) / most);
      const baseline = y + barHeight - 4;
      parts.push(
        text(barStart - 8, baseline, label, 'label'),
        `<rect class="${kind}" x="${barStart}" y="${y}" width="${length}" height="${barHeight}" rx="2"/>`,
        text(barStart + length + 6, baseline, `${speed.toFixed(0)} MB/s`),
      );
      y += barStep;
    }
  }
  const size = `width="${width}" height="${y}" viewBox="0 0 ${width} ${y}"`;
  const name = 'Speed of reading one image, MB/s';
  const head = `<svg xmlns="http://www.w3.org/2000/svg" ${size} role="img" aria-label="${name}">`;
  return [head, `<style>${style}\n</style>`, ...parts, '</svg>', ''].join('\n');
}

function measuredBars({ caseName, bars }: Group, results: readonly CaseResult[]) {
  const result = results.find(({ benchCase }) => benchCase.name === caseName);
  if (result === undefined) return [];
  const medians = mediansOf(result.samples);
  // The work of these cases is counted in MB.
  const { amount } = result.work;
  return bars.flatMap((bar) => {
    const seconds = medians.seconds(bar.contestant);
    return seconds === undefined ? [] : [{ ...bar, speed: amount / seconds }];
  });
}

function text(x: number, y: number, content: string, className?: string): string {
  const attribute = className === undefined ? '' : ` class="${className}"`;
  return `<text${attribute} x="${x}" y="${y}">${content}</text>`;
}
