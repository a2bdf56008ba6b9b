import { type ChildProcess, spawn } from 'node:child_process';
import { cpSync, existsSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { SECRET } from '../receive/sign.ts';

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));

export const OPERATOR = 'faults-operator-0123-of-thirty-t';

/** The built executable: what users run. */
const MAIN = here('../../dist/src/main.js');

export interface Start {
  database: string;
  command?: readonly string[];
  /** What the service runs under: `strace` and its options. */
  under?: readonly string[];
  env?: Readonly<Record<string, string>>;
  nodeArgs?: readonly string[];
  /** Another build than this one. */
  main?: string;
}

export interface Ended {
  code: number | null;
  signal: NodeJS.Signals | null;
}

export interface Service {
  child: ChildProcess;
  /** Resolves once deliveries are taken; to null if the process ended before. */
  listening: Promise<{ port: number; opsUrl: string } | null>;
  exited: Promise<Ended>;
  /** All that it wrote. */
  output(): string;
  /** SIGTERM. */
  stop(): Promise<Ended>;
}

/** Starts a command of ours, by default the service itself, with no upstream: what deliveries say is all there is. */
export function startService(start: Start): Service {
  const main = start.main ?? MAIN;
  if (!existsSync(main)) throw new Error(`${main} is missing: run "npm run build" first`);
  const command = start.command ?? ['serve'];
  // Attached to a pipe of ours, it goes when we do, however we end.
  const attached = command[0] === 'serve' ? ['--attached'] : [];
  const own = [process.execPath, ...(start.nodeArgs ?? []), main, ...command, ...attached];
  const [program, ...args] = [...(start.under ?? []), ...own];
  const child = spawn(program!, args, {
    cwd: dirname(start.database),
    env: {
      PATH: process.env['PATH'],
      HOME: process.env['HOME'],
      PORT: '0',
      OPS_PORT: '0',
      OPS_TOKENS: `faults:operate:${OPERATOR}`,
      WEBHOOK_SECRETS: SECRET,
      DATABASE_URL: `file:${start.database}`,
      LOG_LEVEL: 'warn',
      ...start.env,
    },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  const lines: string[] = [];
  const listening = Promise.withResolvers<{ port: number; opsUrl: string } | null>();
  let port = 0;
  for (const stream of [child.stdout, child.stderr]) {
    createInterface({ input: stream! }).on('line', (line) => {
      lines.push(line);
      port = Number(/^Deliveries: .*:(\d+)\/webhooks$/.exec(line)?.[1] ?? port);
      const opsUrl = /^Operators: (.*)$/.exec(line)?.[1];
      if (opsUrl !== undefined) listening.resolve({ port, opsUrl });
    });
  }
  const exited = new Promise<Ended>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code, signal) => resolve({ code, signal }));
  });
  exited.then(
    () => listening.resolve(null),
    () => listening.resolve(null),
  );
  return {
    child,
    listening: listening.promise,
    exited,
    output: () => lines.join('\n'),
    async stop() {
      child.kill('SIGTERM');
      return await exited;
    },
  };
}

/** How long a service may take to end after the fault that should end it. */
const ENDING_MS = 60_000;

/** Waits for a service that is to end by itself; one that does not is asked to, and ends with code 0 then. */
export async function endedOrStopped(service: Service): Promise<Ended> {
  const timer = setTimeout(() => service.child.kill('SIGTERM'), ENDING_MS);
  const ended = await service.exited;
  clearTimeout(timer);
  return ended;
}

/** strace as a grandchild (-D), so that the service stays our own child: its signals and its exit code are its own. */
export function strace(...injections: string[]): string[] {
  const names = [...new Set(injections.map((injection) => injection.slice(0, injection.indexOf(':'))))];
  const options = ['-D', '-f', '-qq', '-o', '/dev/null', '-e', `trace=${names.join(',')}`];
  return ['strace', ...options, ...injections.flatMap((injection) => ['-e', `inject=${injection}`])];
}

/** The next version of the program, so to speak: this build with one more migration. Returns its executable. */
export function buildWithMigration(folder: string, sql: readonly string[]): string {
  const root = here('../..');
  for (const part of ['dist', 'drizzle', 'package.json']) {
    cpSync(join(root, part), join(folder, part), { recursive: true });
  }
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
  const journalPath = join(folder, 'drizzle/sqlite/meta/_journal.json');
  const journal = JSON.parse(readFileSync(journalPath, 'utf8')) as {
    entries: { idx: number; when: number; tag: string }[];
  };
  const last = journal.entries.at(-1)!;
  const entry = { ...last, idx: last.idx + 1, when: last.when + 1, tag: 'one_more' };
  journal.entries.push(entry);
  writeFileSync(journalPath, JSON.stringify(journal));
  writeFileSync(
    join(dirname(journalPath), '..', `${entry.tag}.sql`),
    sql.join('\n--> statement-breakpoint\n'),
  );
  return join(folder, 'dist/src/main.js');
}
