import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { SECRET } from '../receive/sign.ts';
import {
  askOperators,
  MAIN,
  type Mirror,
  type ServerProcess,
  startMirror,
  startProcess,
} from './processes.ts';
import { percentile } from './statistics.ts';

/** Held upstream; a page takes a hundred. The assessments are few because a full sync asks for each by itself. */
const UPSTREAM = { policies: 150, riskAssessments: 10, vendors: 150 };
/** Changed of each kind, once with their deliveries and once without. */
const CHANGED = 4;
const FIELDS = (round: string) => ({ name: `changed in ${round}` });
const API_KEY = 'bench-api-key-0123456789';

/** After this the figures are printed as far as they have come. */
const LONGEST_WAIT_MS = 75_000;
const POLL_MS = 100;
/** SYNC_SETTLE_SECONDS, as it is by default, and a little. */
const SETTLE_MS = 10_500;

const KINDS = ['policy', 'risk_assessment', 'vendor'] as const;
type BenchKind = (typeof KINDS)[number];
const TABLES = { policy: 'policies', risk_assessment: 'risk_assessments', vendor: 'vendors' } as const;
const ID_FIELDS = { policy: 'policyId', risk_assessment: 'id', vendor: 'id' } as const;
const SECTIONS = { policy: 'policies', risk_assessment: 'riskAssessments', vendor: 'vendors' } as const;

/** How late provisional rows and verifications are at the default budget and SETTLE, and what a resolved record costs in requests. */
export async function measureLag({
  say,
  main,
}: {
  main?: string;
  say: (line: string) => void;
}): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), 'compliance-mirror-lag-'));
  const started: ServerProcess[] = [];
  try {
    const sandbox = startSandbox(directory, main);
    started.push(sandbox);
    const upstream = (await sandbox.line('Sandbox: ')).replace(/^Sandbox: /, '').replace(/\/v1$/, '');
    const database = join(directory, 'mirror.db');
    const ids = Array.from({ length: UPSTREAM.riskAssessments }, (_, n) => `risk-${n}`);
    writeFileSync(join(directory, 'risk-ids.txt'), ids.join('\n'));
    const mirror = await startMirror(
      database,
      {
        COMPLIANCE_BASE_URL: `${upstream}/v1`,
        COMPLIANCE_API_KEY: API_KEY,
        RISK_IDS_FILE: join(directory, 'risk-ids.txt'),
      },
      main === undefined ? {} : { main },
    );
    started.push(mirror);
    await post(`${upstream}/v1/webhooks`, {
      url: `http://127.0.0.1:${mirror.port}/webhooks`,
      events: ['policy.*', 'risk.*', 'vendor.*'],
      description: 'bench',
    });

    const db = new Database(database, { readonly: true });
    try {
      await until(() => syncedSince(db, ''));
      say(`\nLag at the defaults (60 requests a minute, SETTLE 10 s), ${JSON.stringify(UPSTREAM)} upstream:`);
      await announced({ db, mirror, upstream, say });
      await silent({ db, mirror, upstream, say });
    } finally {
      db.close();
    }
  } finally {
    for (const each of started.reverse()) {
      each.kill('SIGTERM');
      await each.exited;
    }
    rmSync(directory, { recursive: true, force: true });
  }
}

interface Scene {
  db: Database.Database;
  mirror: Mirror;
  upstream: string;
  say: (line: string) => void;
}

async function announced({ db, mirror, upstream, say }: Scene): Promise<void> {
  const requestsBefore = await requests(mirror);
  const changedAt = new Date().toISOString();
  await change(upstream, 'the announced round', false);
  const wanted = KINDS.length * CHANGED;
  const rows = db.prepare(
    `SELECT e.received_at, e.processed_at, coalesce(p.verified_at, r.verified_at, v.verified_at) AS verified_at FROM events e
     LEFT JOIN policies p ON e.kind = 'policy' AND p.id = e.record_id AND p.unverified_since IS NULL
     LEFT JOIN risk_assessments r ON e.kind = 'risk_assessment' AND r.id = e.record_id AND r.unverified_since IS NULL
     LEFT JOIN vendors v ON e.kind = 'vendor' AND v.id = e.record_id AND v.unverified_since IS NULL
     WHERE e.received_at >= ?`,
  );
  interface Row {
    received_at: string;
    processed_at: string | null;
    verified_at: string | null;
  }
  const verified = (row: Row) => row.verified_at !== null && row.verified_at > row.received_at;
  const look = () => rows.all(changedAt) as Row[];
  await until(() => look().filter(verified).length >= wanted);
  const seen = look();
  const since = (row: Row, at: string | null) => (Date.parse(at ?? '') - Date.parse(row.received_at)) / 1000;
  const shown = seen.filter((row) => row.processed_at !== null).map((row) => since(row, row.processed_at));
  const verifications = seen.filter(verified).map((row) => since(row, row.verified_at));
  say(`  delivery → provisional ${spread(shown, 3)}`);
  say(`  delivery → verified   ${spread(verifications, 1)}, ${verifications.length} of ${wanted}`);
  await perRecord('announced', verifications.length, requestsBefore, { mirror, say });
}

/** Every delivery lost: a full sync has to find what changed. */
async function silent({ db, mirror, upstream, say }: Scene): Promise<void> {
  // A read so soon after another that differs decides nothing: the second look would be counted as well.
  await new Promise((resolve) => setTimeout(resolve, SETTLE_MS));
  const changed = await change(upstream, 'the silent round', true);
  const requestsBefore = await requests(mirror);
  const askedAt = new Date().toISOString();
  await askOperators(mirror, '/api/sync-runs', {});
  const count = () =>
    KINDS.reduce((sum, kind) => {
      const resolved = db
        .prepare(`SELECT count(*) FROM ${TABLES[kind]} WHERE name = ? AND unverified_since IS NULL`)
        .pluck()
        .get(FIELDS('the silent round').name);
      return sum + (resolved as number);
    }, 0);
  await until(() => count() >= changed && syncedSince(db, askedAt));
  await perRecord('found by full syncs of every kind', count(), requestsBefore, { mirror, say });
}

async function perRecord(
  what: string,
  records: number,
  requestsBefore: number,
  { mirror, say }: Pick<Scene, 'mirror' | 'say'>,
): Promise<void> {
  const used = (await requests(mirror)) - requestsBefore;
  say(`  requests per resolved record, ${what}: ${(used / records).toFixed(2)} (${used} for ${records})`);
}

function syncedSince(db: Database.Database, startedAt: string): boolean {
  const kinds = db
    .prepare("SELECT count(DISTINCT kind) FROM sync_runs WHERE outcome = 'complete' AND started_at >= ?")
    .pluck();
  return kinds.get(startedAt) === KINDS.length;
}

async function change(upstream: string, round: string, quietly: boolean): Promise<number> {
  for (const kind of KINDS) {
    for (let n = 0; n < CHANGED; n++) {
      await post(`${upstream}/_sandbox/mutate`, {
        kind,
        op: OPERATIONS[kind],
        id: idOf(kind, n),
        fields: FIELDS(round),
        silent: quietly,
      });
    }
  }
  return KINDS.length * CHANGED;
}

/** The sandbox's own operations that can be repeated. */
const OPERATIONS = { policy: 'update', risk_assessment: 'assess', vendor: 'update' } as const;

function idOf(kind: BenchKind, n: number): string {
  return `${{ policy: 'policy', risk_assessment: 'risk', vendor: 'vendor' }[kind]}-${n}`;
}

function startSandbox(directory: string, main: string | undefined): ServerProcess {
  const seed = Object.fromEntries(
    KINDS.map((kind) => [
      SECTIONS[kind],
      Array.from({ length: UPSTREAM[SECTIONS[kind]] }, (_, n) => ({
        [ID_FIELDS[kind]]: idOf(kind, n),
        name: `${kind} ${n}`,
      })),
    ]),
  );
  const path = join(directory, 'seed.json');
  writeFileSync(path, JSON.stringify(seed));
  return startProcess(main ?? MAIN, ['sandbox', '--port', '0', '--seed', path], {
    SANDBOX_API_KEY: API_KEY,
    SANDBOX_WEBHOOK_SECRET: SECRET,
  });
}

async function post(url: string, body: object): Promise<void> {
  const response = await fetch(url, {
    method: 'POST',
    headers: { authorization: `Bearer ${API_KEY}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  if (!response.ok) throw new Error(`${url} answered ${response.status}: ${await response.text()}`);
}

async function requests(mirror: Mirror): Promise<number> {
  const text = await (await askOperators(mirror, '/metrics')).text();
  const counts = text.matchAll(/^compliance_mirror_upstream_requests_total\{.*\} (\d+)$/gm);
  return [...counts].reduce((sum, [, count]) => sum + Number(count), 0);
}

async function until(condition: () => boolean): Promise<void> {
  const deadline = performance.now() + LONGEST_WAIT_MS;
  while (!condition() && performance.now() < deadline)
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
}

function spread(values: readonly number[], digits: number): string {
  const sorted = values.toSorted((a, b) => a - b);
  const at = (share: number) => percentile(sorted, share).toFixed(digits);
  return `median ${at(0.5)} s, longest ${at(1)} s`;
}
