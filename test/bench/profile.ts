import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Contender, measure } from './ratios.ts';

/** The parts of a .cpuprofile that are read here. */
interface CpuProfile {
  nodes: {
    id: number;
    callFrame: { functionName: string; url: string };
    children?: number[];
  }[];
  samples: number[];
  timeDeltas: number[];
}

export interface ProfileOptions {
  main?: string;
  say: (line: string) => void;
}

/** Groups smaller than this say nothing. Share of the busy time. */
const SMALLEST_SHARE = 0.004;

/** Where the time goes: self time by group, of a run with the processor paused, and of one without. */
export async function profile({ say, main }: ProfileOptions): Promise<void> {
  for (const contender of ['accept', 'mirror'] as const satisfies Contender[]) {
    const directory = mkdtempSync(join(tmpdir(), 'compliance-mirror-profile-'));
    try {
      const nodeArgs = ['--cpu-prof', `--cpu-prof-dir=${directory}`];
      await measure(contender, { nodeArgs, ...(main === undefined ? {} : { main }) });
      const files = readdirSync(directory).filter((name) => name.endsWith('.cpuprofile'));
      if (files.length === 0) throw new Error('node left no profile behind');
      for (const file of files) {
        const cpu = JSON.parse(readFileSync(join(directory, file), 'utf8')) as CpuProfile;
        const { busyMs, groups } = selfTimes(cpu);
        say(`\n${contender}, one thread: ${Math.round(busyMs)} ms of self time, start and warm-up included`);
        for (const { group, share } of groups) say(`  ${(share * 100).toFixed(1).padStart(5)} %  ${group}`);
      }
    } finally {
      rmSync(directory, { recursive: true, force: true });
    }
  }
}

function selfTimes(cpu: CpuProfile): { busyMs: number; groups: { group: string; share: number }[] } {
  const nodes = new Map(cpu.nodes.map((node) => [node.id, node]));
  const parents = new Map(
    cpu.nodes.flatMap((node) => (node.children ?? []).map((child) => [child, node.id])),
  );
  const times = new Map<string, number>();
  let busy = 0;
  cpu.samples.forEach((id, index) => {
    const frame = nodes.get(id)?.callFrame;
    if (frame === undefined || frame.functionName === '(idle)') return;
    const caller = nodes.get(parents.get(id) ?? -1)?.callFrame;
    const delta = cpu.timeDeltas[index] ?? 0;
    const group = groupOf(frame, caller);
    times.set(group, (times.get(group) ?? 0) + delta);
    busy += delta;
  });
  const groups = [...times]
    .map(([group, time]) => ({ group, share: time / busy }))
    .filter(({ share }) => share >= SMALLEST_SHARE)
    .sort((a, b) => b.share - a.share);
  return { busyMs: busy / 1_000, groups };
}

type Frame = CpuProfile['nodes'][number]['callFrame'];

/** Native calls are named by who makes them: `run` alone does not say which statement it is. */
function groupOf(frame: Frame, caller: Frame | undefined): string {
  const { functionName: name, url } = frame;
  if (url.includes('/node_modules/')) return `package ${packageOf(url)}`;
  if (url.includes('node:internal/crypto') || url === 'node:crypto') return 'crypto, JavaScript';
  if (url.startsWith('node:'))
    return url.includes('http') ? 'node http, JavaScript' : 'node streams, net, timers';
  if (url.includes('/dist/')) return `ours ${url.slice(url.indexOf('/dist/') + 6)} ${name || '(anonymous)'}`;
  const by = caller === undefined ? '' : ` by ${callerOf(caller)}`;
  return name.startsWith('(') ? name : `native ${name}${by}`;
}

function callerOf({ functionName, url }: Frame): string {
  const file = url.split('/').slice(-2).join('/');
  return `${functionName || '(anonymous)'} ${file}`;
}

function packageOf(url: string): string {
  const [scope = '', name = ''] = url.slice(url.lastIndexOf('/node_modules/') + 14).split('/');
  return scope.startsWith('@') ? `${scope}/${name}` : scope;
}
