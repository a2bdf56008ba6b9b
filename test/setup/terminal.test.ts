import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { IS_FULL } from '../support/full.ts';
import { freePorts } from '../support/ports.ts';
import { KEY, PLAIN, type Shape, type ShapedUpstream, startShaped } from './shaped-upstream.ts';

const MAIN = fileURLToPath(new URL('../../dist/src/main.js', import.meta.url));

/** That of util-linux; others have other options. */
const hasScript = spawnSync('script', ['--version']).stdout?.toString().includes('util-linux') ?? false;

/** A small generator, so that a shape that fails can be had again by its seed. */
function randomOf(seed: number): <T>(choices: readonly T[]) => T {
  let state = seed;
  return (choices) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return choices[Math.floor((state / 2 ** 32) * choices.length)]!;
  };
}

function shapeOf(seed: number): Shape {
  const pick = randomOf(seed);
  const signature = pick([
    { content: PLAIN.signing.content },
    { content: (t: string, body: string) => `${t}:${body}` },
    { content: (t: string, body: string) => `${t}${body}`, algorithm: 'sha512' as const },
  ]);
  return {
    list: pick(['data', 'nested', 'bare']),
    ids: {
      policy: pick(['policyId', 'id', 'policy_ref']),
      vendor: pick(['id', 'vendorId', 'vendor_uuid']),
      assessment: pick(['id', 'assessment_key', null]),
    },
    paging: {
      page: pick(['page', 'pageNumber', 'page_number']),
      size: pick(['perPage', 'per_page', 'limit']),
      first: pick([0, 1]),
    },
    signing: { ...PLAIN.signing, header: pick(['X-Webhook-Signature', 'X-Signature']), ...signature },
  };
}

/** It takes some seconds; a question that nobody answers would wait for ever. */
const LIMIT_MS = 60_000;

let folder: string;
let upstream: ShapedUpstream;
let child: ChildProcess;
let screen: string;
let looks: Set<() => void>;
let ended: Promise<number | null>;
let answeredAt: number;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'compliance-mirror-terminal-'));
});
afterEach(async () => {
  child.kill('SIGKILL');
  await upstream.close();
  rmSync(folder, { recursive: true, force: true });
});

async function atTerminal(): Promise<void> {
  const [port, opsPort] = await freePorts(2);
  screen = '';
  answeredAt = 0;
  looks = new Set();
  child = spawn('script', ['-qefc', `'${process.execPath}' '${MAIN}' setup`, '/dev/null'], {
    cwd: folder,
    env: {
      PATH: process.env['PATH'],
      HOME: folder,
      TERM: 'dumb',
      COLUMNS: '200',
      PORT: String(port),
      OPS_PORT: String(opsPort),
      COMPLIANCE_REQUESTS_PER_MINUTE: '6000',
      SYNC_SETTLE_SECONDS: '0.2',
    },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  child.stdout?.setEncoding('utf8').on('data', (text: string) => {
    screen += text;
    for (const look of looks) look();
  });
  ended = new Promise<number | null>((resolve) => child.once('close', resolve));
  void ended.then(() => {
    for (const look of looks) look();
  });
}

/** Once `part` stands on the screen behind where the last answer was given. */
async function until(part: string): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    const look = () => {
      const at = screen.indexOf(part, answeredAt);
      if (at < 0 && child.exitCode === null) return;
      looks.delete(look);
      if (at < 0) reject(new Error(`it ended before "${part}":\n${screen}`));
      else {
        answeredAt = at + part.length;
        resolve();
      }
    };
    looks.add(look);
    look();
  });
}

async function answer(question: string, text: string): Promise<void> {
  await until(question);
  child.stdin?.write(`${text}\r`);
}

describe.skipIf(!hasScript)('setup on a terminal', () => {
  it.each((IS_FULL ? [1, 2, 3] : [1]).map(() => Math.floor(Math.random() * 1_000_000)))(
    'against a service of the random shape %i ends with a verified mirror, and shows no secret',
    async (seed) => {
      const shape = shapeOf(seed);
      upstream = await startShaped(shape);
      await atTerminal();
      await answer('Address of the API', upstream.baseUrl);
      await answer('How to authenticate', '');
      await answer('API key', KEY);
      await answer('Id of a risk assessment', 'risk-1');
      await answer('Address at which', '');
      await answer('Write it?', '');
      await until('Waiting for a first delivery');
      const taken = upstream.emit();
      for (;;) {
        // One for each step of finding out how it is signed.
        const first = await Promise.race([until('Write it?').then(() => 'write'), taken.then(() => 'taken')]);
        if (first === 'taken') break;
        child.stdin?.write('\r');
      }
      expect([await ended, screen]).toEqual([0, expect.stringContaining('What doctor says')]);
      expect(screen).not.toContain(KEY);
      expect(screen).not.toContain(shape.signing.secret);
      expect(screen).toMatch(/vendor: in \w+, 3 records/);
      expect(screen).toMatch(/policy: in \w+, 5 records/);
      expect(readFileSync(join(folder, '.env'), 'utf8')).toContain(`COMPLIANCE_API_KEY=${KEY}`);
    },
    LIMIT_MS,
  );

  it(
    'Ctrl-C while a secret is asked for ends it, and leaves no file',
    async () => {
      upstream = await startShaped(PLAIN);
      await atTerminal();
      await answer('Address of the API', upstream.baseUrl);
      await answer('How to authenticate', '');
      await until('API key');
      child.stdin?.write('half-a-secret\x03');
      expect(await ended).toBe(1);
      expect(screen).toContain('stopped before the end');
      expect(screen).not.toContain('half-a-secret');
      expect(() => readFileSync(join(folder, '.env'))).toThrow('ENOENT');
    },
    LIMIT_MS,
  );

  it(
    'Ctrl-D at a question ends it, and is said once, on a line of its own',
    async () => {
      upstream = await startShaped(PLAIN);
      await atTerminal();
      await answer('Address of the API', upstream.baseUrl);
      await answer('How to authenticate', '');
      await answer('API key', KEY);
      await until('Id of a risk assessment');
      child.stdin?.write('\x04');
      expect(await ended).toBe(1);
      expect(screen.match(/the input ended/g)).toHaveLength(1);
      expect(screen).toMatch(/\ncompliance-mirror: the input ended before everything was answered\s*$/);
    },
    LIMIT_MS,
  );
});
