import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import pino from 'pino';
import type { Verdict } from '../../src/mirror/problems.ts';
import { isWell } from '../../src/ops/verdict.ts';
import { systemClock } from '../../src/platform/clock.ts';
import { loadConfig } from '../../src/platform/config.ts';
import { startService } from '../../src/service/service.ts';
import { freePorts } from '../support/ports.ts';
import { startShapedUpstream } from '../support/shaped-upstream.ts';
import type { ShapesPatch } from '../support/shapes.ts';

/**
 * One shape of the upstream against the real service, over real HTTP, in this process: records are there and change, events
 * are delivered, and at each look the mirror's own verdict and its rows are read in one transaction.
 */

export const KINDS = ['policy', 'risk_assessment', 'vendor'] as const;
export type Kind = (typeof KINDS)[number];

/** What must come of a kind. `set` is also what the problem must name; null: no setting mends it, and the problem says so. */
export type Expected = 'mirrored' | { problem: RegExp; set: Readonly<Record<string, string>> | null };

export interface Shape {
  name: string;
  shapes: ShapesPatch;
  /**
   * Left out: mirrored. `guided`: nobody has said what must be set; what the problems name is, one after the other, until
   * everything is mirrored.
   */
  expected?: Partial<Record<Kind, Expected>> | 'guided';
}

export interface Cell {
  kind: Kind;
  first: string;
  afterwards: string;
  /** It was green while something was missing, at any time. */
  loss: string | null;
  ok: boolean;
  /** As the table prints it. */
  said: string;
}

const API_KEY = 'matrix-api-key-0123456789';
const OPS_TOKEN = 'matrix-operator-token-0123456789';
const SIGNING_SECRET = 'matrix-signing-secret-0123456789';
const TABLES = { policy: 'policies', risk_assessment: 'risk_assessments', vendor: 'vendors' } as const;

/** Of each listed kind: more than two pages. */
const RECORDS = 12;
const PAGE_SIZE = 5;
const SETTLE_SECONDS = '0.2';
const LOOK_EVERY_MS = 40;
/** What is not as expected by then is not going to be: many times what a busy machine needs. */
const PATIENCE_MS = 30_000;
/** Settings that one drawn shape may need, one after the other. */
const MAX_GUIDED = 6;
/** A verdict that holds for so long, over several times the settling time and a full sync that was asked for, is final. */
const STEADY_MS = 1_500;

interface Row {
  id: string;
  name: string | null;
  status: string | null;
  verified_at: string | null;
  unverified_since: string | null;
}

interface Look {
  verdict: Verdict;
  rows: Row[];
  problems: string[];
}

/** What the service holds of a kind, by id. */
type Held = ReadonlyMap<string, Record<string, unknown>>;

async function request(url: string, body?: unknown, token?: string): Promise<unknown> {
  const response = await fetch(url, {
    method: body === undefined ? 'GET' : 'POST',
    headers: {
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      'content-type': 'application/json',
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${url} answered ${response.status}: ${text}`);
  return JSON.parse(text);
}

export async function runShape({ shapes, expected = {} }: Shape): Promise<Cell[]> {
  const numbered = (name: string) =>
    Array.from({ length: RECORDS }, (_, index) => ({ name: `${name} ${index}` }));
  const upstream = await startShapedUpstream(shapes, {
    apiKeys: [API_KEY],
    seed: { policies: numbered('Policy'), riskAssessments: [], vendors: numbered('Vendor') },
  });
  const directory = mkdtempSync(join(tmpdir(), 'compliance-mirror-matrix-'));
  const [port, opsPort] = await freePorts(2);
  const database = join(directory, 'mirror.db');
  const settings = {
    PORT: String(port),
    OPS_PORT: String(opsPort),
    OPS_TOKENS: `matrix:operate:${OPS_TOKEN}`,
    DATABASE_URL: `file:${database}`,
    WEBHOOK_SECRETS: SIGNING_SECRET,
    COMPLIANCE_BASE_URL: upstream.baseUrl,
    COMPLIANCE_API_KEY: API_KEY,
    COMPLIANCE_REQUESTS_PER_MINUTE: '60000',
    COMPLIANCE_PAGE_SIZE: String(PAGE_SIZE),
    SYNC_SETTLE_SECONDS: SETTLE_SECONDS,
  };
  const start = (more: Readonly<Record<string, string>> = {}) =>
    startService({
      config: loadConfig({ ...settings, ...more }),
      logger: pino({ level: 'silent' }),
      // Given a clock, it has no threads: to start them takes longer than a shape.
      clock: systemClock(),
    });
  const ops = (path: string, body: unknown) => request(`http://127.0.0.1:${opsPort}${path}`, body, OPS_TOKEN);

  let service = await start();
  const db = new Database(database, { readonly: true });
  const lookAt = createLook(db);
  try {
    await request(
      `${upstream.baseUrl}/webhooks`,
      {
        url: `http://127.0.0.1:${port}/webhooks`,
        events: ['policy.*', 'risk.*', 'vendor.*'],
        description: 'matrix',
        secret: SIGNING_SECRET,
      },
      API_KEY,
    );
    // A list that moves while it is read is no matter of its shape.
    while (!hasReadLists(db)) await pause();
    await change(upstream.sandboxUrl);
    const held = {
      policy: upstream.held('policy'),
      risk_assessment: upstream.held('risk_assessment'),
      vendor: upstream.held('vendor'),
    };
    const cells = KINDS.map(
      (kind): Cell => ({ kind, first: '', afterwards: '', loss: null, ok: true, said: '' }),
    );

    const wanted = (kind: Kind): Expected =>
      expected === 'guided' ? MIRRORED : (expected[kind] ?? MIRRORED);
    /** What a person does about records that cannot be found, once for each that is shown. */
    const asked = new Set<string>();
    const findUnknown = () => {
      for (const { id, digest } of unknownIn(db)) {
        const shown = `${id} ${digest}`;
        if (asked.has(shown)) continue;
        asked.add(shown);
        // It may be resolved by now, or the service be starting anew with other settings.
        void ops(`/api/problems/${id}/resolve`, { find: true }).catch(() => asked.delete(shown));
      }
    };
    /** How the kind stands. Whichever is asked about, none of them may be green over a loss meanwhile. */
    const stands = (of: Kind): string => {
      findUnknown();
      const words = cells.map((cell) => {
        const look = lookAt(cell.kind);
        const differences = differencesOf(look.rows, held[cell.kind]);
        if (isWell(look.verdict)) cell.loss ??= differences;
        return [cell.kind, wordOf(look, differences)] as const;
      });
      return words.find(([kind]) => kind === of)![1];
    };
    const settle = async (cell: Cell, expected: Expected) =>
      await settled(
        () => stands(cell.kind),
        (word) => fits(word, expected),
      );

    const guided: Record<string, string> = {};
    for (let rounds = 0; expected === 'guided' && rounds < MAX_GUIDED; rounds += 1) {
      const named = await settled(
        () => KINDS.map(stands).join(' | '),
        (words) =>
          !words.includes('catching_up') && (isAllMirrored(words) || namedIn(words, guided) !== null),
      );
      const next = namedIn(named, guided);
      if (next === null) break;
      Object.assign(guided, next);
      await service.stop();
      service = await start(guided);
    }
    for (const cell of cells) await settle(cell, wanted(cell.kind));
    // Whoever looks at the table may ask for a full sync: what was lost is not to turn green by that.
    await ops('/api/syncs', {});
    for (const until = performance.now() + STEADY_MS; performance.now() < until; await pause())
      stands('policy');
    for (const cell of cells) cell.first = await settle(cell, wanted(cell.kind));

    const remedies: Record<string, string> = {};
    for (const kind of KINDS) {
      const want = wanted(kind);
      if (want !== MIRRORED) Object.assign(remedies, want.set);
    }
    if (Object.keys(remedies).length > 0) {
      await service.stop();
      service = await start(remedies);
      for (const cell of cells) {
        const want = wanted(cell.kind);
        const then = want !== MIRRORED && want.set === null ? want : MIRRORED;
        cell.afterwards = await settle(cell, then);
      }
    }
    return cells.map((cell) => {
      const ok = isAsExpected(cell, wanted(cell.kind));
      const said = ok ? saidOf(wanted(cell.kind), Object.keys(guided)) : saidOfWrong(cell);
      return { ...cell, ok, said };
    });
  } finally {
    db.close();
    await service.stop();
    await upstream.close();
    rmSync(directory, { recursive: true, force: true });
  }
}

/** What happens upstream: of each kind something is made, changed and, where events tell of it, deleted. */
async function change(sandboxUrl: string): Promise<void> {
  const control = (path: string, body: unknown) => request(`${sandboxUrl}/_sandbox/${path}`, body);
  const mutate = (kind: Kind, op: string, id: string, fields = {}) =>
    control('mutate', { kind, op, id, fields });
  for (const kind of ['policy', 'vendor'] as const) {
    await mutate(kind, 'update', `${kind}-0001`, { name: 'Changed' });
    await mutate(kind, 'delete', `${kind}-0002`);
    await mutate(kind, 'create', `${kind}-0099`, { name: 'Made' });
  }
  for (const id of ['risk-0001', 'risk-0002']) {
    await mutate('risk_assessment', 'create', id, { name: `Assessment ${id}` });
    await mutate('risk_assessment', 'assess', id, { likelihood: 3 });
  }
  const { quiet } = (await control('scenario', { name: 'stop', waitMs: PATIENCE_MS })) as { quiet: boolean };
  if (!quiet) throw new Error('the deliveries did not come to an end');
}

const unknownIn = (db: Database.Database) =>
  db
    .prepare("SELECT id, digest FROM problems WHERE resolved_at IS NULL AND reason = 'unknown_record'")
    .all() as { id: number; digest: string }[];

/** Whether the reading of each list that begins with the service has ended, however it did. */
function hasReadLists(db: Database.Database): boolean {
  const ended = db.prepare(
    'SELECT count(DISTINCT kind) FROM sync_runs WHERE finished_at IS NOT NULL AND kind IN (?, ?)',
  );
  return ended.pluck().get('policy', 'vendor') === 2;
}

/**
 * The verdict that a query sees, and the rows, as of one moment. Asked many times a second: prepared once, and with the kind in its
 * text. SQLite plans anew for each value bound to what a partial index is for, which takes the view most of a millisecond.
 */
function createLook(db: Database.Database): (kind: Kind) => Look {
  const statementsOf = (kind: Kind) => ({
    verdict: db.prepare(`SELECT verdict FROM sync_status WHERE kind = '${kind}'`),
    records: db.prepare(
      `SELECT id, name, status, verified_at, unverified_since FROM current_${TABLES[kind]}`,
    ),
  });
  const statements = {
    policy: statementsOf('policy'),
    risk_assessment: statementsOf('risk_assessment'),
    vendor: statementsOf('vendor'),
  };
  const open = db.prepare(
    'SELECT reason, error FROM problems WHERE resolved_at IS NULL AND (kind = ? OR kind IS NULL)',
  );
  return db.transaction((kind: Kind): Look => {
    const { verdict } = statements[kind].verdict.get() as Look;
    const rows = statements[kind].records.all() as Row[];
    const problems = open.all(kind) as { reason: string; error: string | null }[];
    return { verdict, rows, problems: problems.map(({ reason, error }) => `${reason}: ${error ?? ''}`) };
  });
}

/** The first few; null: they are the same, and verified. */
function differencesOf(rows: readonly Row[], held: Held): string | null {
  const found: string[] = [];
  const shown = new Set(rows.map(({ id }) => id));
  for (const id of held.keys()) if (!shown.has(id)) found.push(`${id} is missing`);
  for (const row of rows) {
    const record = held.get(row.id);
    const words = row.status?.toLowerCase().replaceAll(' ', '_');
    if (record === undefined) found.push(`${row.id} is there`);
    else if (record['name'] !== row.name) found.push(`${row.id} is called ${row.name}`);
    else if (record['status'] !== words) found.push(`${row.id} is ${row.status}`);
    else if (row.verified_at === null || row.unverified_since !== null) found.push(`${row.id} is unverified`);
  }
  return found.length === 0 ? null : found.slice(0, 3).join(', ');
}

const MIRRORED = 'mirrored';

const isAllMirrored = (words: string) => words.split(' | ').every((word) => word === MIRRORED);

/** Settings that open problems say to set, and that are not set so yet; null: none. */
function namedIn(words: string, already: Readonly<Record<string, string>>): Record<string, string> | null {
  const named = [...words.matchAll(/set ((?:COMPLIANCE|ID_POINTERS)_[A-Z_]+)=(\S+)/g)]
    .map(([, name, value]) => [name!, value!] as const)
    .filter(([name, value]) => already[name] !== value);
  return named.length === 0 ? null : Object.fromEntries(named);
}

function wordOf({ verdict, problems }: Look, differences: string | null): string {
  if (isWell(verdict)) return differences === null ? MIRRORED : `LOSS: ${differences}`;
  const why = problems.length === 0 ? '' : `, ${problems.join(' | ')}`;
  return `${verdict}${why}${differences === null ? '' : ` (${differences})`}`;
}

function fits(word: string, expected: Expected): boolean {
  if (expected === MIRRORED) return word === MIRRORED;
  return word !== MIRRORED && !word.startsWith('LOSS') && expected.problem.test(word);
}

/** What it comes to: as soon as that is what is expected, or once nothing more is to be waited for. */
async function settled(look: () => string, isExpected: (word: string) => boolean): Promise<string> {
  const until = performance.now() + PATIENCE_MS;
  for (;;) {
    const word = look();
    if (isExpected(word) || performance.now() > until) return word;
    await pause();
  }
}

const pause = () => new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS));

function isAsExpected({ first, afterwards, loss }: Cell, expected: Expected): boolean {
  if (loss !== null || !fits(first, expected)) return false;
  if (expected === MIRRORED) return afterwards === '' || afterwards === MIRRORED;
  if (expected.set === null) return afterwards === '' || fits(afterwards, expected);
  return afterwards === MIRRORED;
}

function saidOf(expected: Expected, guided: readonly string[]): string {
  if (expected === MIRRORED) return [...guided, MIRRORED].join(', ');
  if (expected.set === null) return 'problem that says why';
  return `problem, ${Object.keys(expected.set).join(', ')}, ${MIRRORED}`;
}

function saidOfWrong({ loss, first, afterwards }: Cell): string {
  if (loss !== null) return 'LOSS UNDER GREEN';
  return `WRONG: ${(afterwards === '' ? first : afterwards).slice(0, 40)}`;
}
