import { type ChildProcess, spawn } from 'node:child_process';
import { tmpdir } from 'node:os';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { SECRET } from '../receive/sign.ts';

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));
const PROBE = new URL('./probe.js', import.meta.url).href;

const MAIN = here('../../dist/src/main.js');
export const BASELINE = here('./baseline.ts');
export const NAIVE = here('./naive.ts');

/** A token of our own: signing in by a link is for people. */
const OPS_TOKEN = 'bench-operator-0123456789-0123456';

/** As probe.js tells it. */
export interface Usage {
  /** User and system time of all threads. */
  cpuMs: number;
  rssBytes: number;
  /** The highest that it ever was. */
  maxRssBytes: number;
}

export interface ServerProcess {
  child: ChildProcess;
  pid: number;
  /** What the first line with `part` in it says. Rejects if the process ends before. */
  line(part: string): Promise<string>;
  usage(): Promise<Usage>;
  kill(signal: NodeJS.Signals): void;
  exited: Promise<number | null>;
}

export interface Mirror extends ServerProcess {
  /** Of the receiver, on 127.0.0.1. */
  port: number;
  opsUrl: string;
}

/** Starts a script of ours, with the probe in it. */
export function startProcess(
  script: string,
  args: readonly string[],
  settings: Readonly<Record<string, string>>,
  nodeArgs: readonly string[] = [],
): ServerProcess {
  const child = spawn(process.execPath, [...nodeArgs, '--import', PROBE, script, ...args], {
    env: { PATH: process.env['PATH'], HOME: process.env['HOME'], ...settings },
    cwd: tmpdir(),
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
  });
  const lines: string[] = [];
  const waiting = new Set<() => void>();
  for (const stream of [child.stdout, child.stderr]) {
    createInterface({ input: stream! }).on('line', (line) => {
      lines.push(line);
      for (const look of waiting) look();
    });
  }
  const exited = new Promise<number | null>((resolve) => child.once('close', resolve));
  const unlessEnded = <T>(work: Promise<T>): Promise<T> =>
    Promise.race([
      work,
      exited.then((code): never => {
        throw new Error(`the process ended with ${code}:\n${lines.join('\n')}`);
      }),
    ]);
  return {
    child,
    pid: child.pid!,
    exited,
    kill: (signal) => child.kill(signal),
    line: (part) =>
      unlessEnded(
        new Promise((resolve) => {
          const look = () => {
            const found = lines.find((line) => line.includes(part));
            if (found === undefined) return;
            waiting.delete(look);
            resolve(found);
          };
          waiting.add(look);
          look();
        }),
      ),
    usage: () =>
      unlessEnded(
        new Promise((resolve) => {
          child.once('message', (usage) => resolve(usage as Usage));
          child.send('usage');
        }),
      ),
  };
}

/** The built service on ports of its own, events only unless `settings` say otherwise. */
export async function startMirror(
  database: string,
  settings: Readonly<Record<string, string>> = {},
  options: { main?: string; nodeArgs?: readonly string[] } = {},
): Promise<Mirror> {
  const server = startProcess(
    options.main ?? MAIN,
    ['serve'],
    {
      PORT: '0',
      OPS_PORT: '0',
      OPS_TOKENS: `bench:operate:${OPS_TOKEN}`,
      DATABASE_URL: `file:${database}`,
      WEBHOOK_SECRETS: SECRET,
      // A line per delivery is a setting like any other; with it, writing logs would be measured too.
      LOG_LEVEL: 'warn',
      ...settings,
    },
    options.nodeArgs,
  );
  const port = portIn(await server.line('Deliveries: '));
  const opsUrl = (await server.line('Operators: ')).replace(/^.*Operators: /, '');
  return { ...server, port, opsUrl };
}

export async function stopMirror(mirror: Mirror): Promise<void> {
  mirror.kill('SIGTERM');
  await mirror.exited;
}

export function portIn(line: string): number {
  const port = /:(\d+)(\/|$)/.exec(line)?.[1];
  if (port === undefined) throw new Error(`no port in "${line}"`);
  return Number(port);
}

/** A request to the operators' listener. Rejects unless it is answered with success. */
export async function askOperators(
  mirror: Pick<Mirror, 'opsUrl'>,
  path: string,
  body?: object,
): Promise<Response> {
  const response = await fetch(`${mirror.opsUrl}${path}`, {
    method: body === undefined ? 'GET' : 'POST',
    headers: { authorization: `Bearer ${OPS_TOKEN}`, 'content-type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  if (!response.ok) throw new Error(`${path} answered ${response.status}: ${await response.text()}`);
  return response;
}
