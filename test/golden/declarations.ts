import { globSync, readFileSync } from 'node:fs';
import Database from 'better-sqlite3';
import { onTestFinished } from 'vitest';
import { EVENT_TYPES, KINDS } from '../../src/compliance/kinds.ts';
import { PROBLEM_REASONS } from '../../src/mirror/problems.ts';
import { createMetrics } from '../../src/platform/metrics.ts';
import { aboutSetting, SETTING_NAMES } from '../../src/platform/settings.ts';
import { openStore } from '../../src/store/open.ts';
import { bearer, type Harness, opsHarness, READ } from '../ops/harness.ts';
import { startPostgres } from '../postgres/server.ts';

/** The tables of docs/tables.md. */
const READ_BY_USERS = [
  ...['policies', 'risk_assessments', 'vendors', 'changes', 'events', 'problems', 'sync_runs'],
  ...['quarantine', 'rejections', 'audit'],
];

const sorted = (lines: Iterable<string>) => `${[...lines].sort().join('\n')}\n`;

/** The operators' listener over a database of its own, until the test is over. */
export async function listener(): Promise<Harness> {
  const h = await opsHarness();
  onTestFinished(() => h.close());
  return h;
}

export async function openapi(): Promise<string> {
  const response = await (await listener()).app.request('/openapi.json', { headers: bearer(READ) });
  return `${inLines(await response.json())}\n`;
}

/** What fits stands in one line. */
const LINE = 140;

function inLines(value: unknown, indent = ''): string {
  const whole = JSON.stringify(value);
  if (whole.length <= LINE - indent.length || typeof value !== 'object' || value === null) return whole;
  const inner = `${indent}  `;
  const [open, close] = Array.isArray(value) ? '[]' : '{}';
  const parts = Object.entries(value).map(
    ([key, of]) => `${inner}${Array.isArray(value) ? '' : `${JSON.stringify(key)}: `}${inLines(of, inner)}`,
  );
  return `${open}\n${parts.join(',\n')}\n${indent}${close}`;
}

/** But for what the library itself measures of the process, which differs from system to system. */
export async function metrics(): Promise<string> {
  const all = createMetrics().registry.getMetricsAsArray() as unknown as Measured[];
  const own = all.filter(({ name }) => !/^compliance_mirror_(nodejs|process)_/.test(name));
  const lines = own.map(async (metric) => {
    const { type } = await metric.get();
    return `${metric.name} ${type} {${metric.labelNames.join(', ')}} ${metric.help}`;
  });
  return sorted(await Promise.all(lines));
}

interface Measured {
  name: string;
  help: string;
  labelNames: string[];
  get(): Promise<{ type: string }>;
}

export async function settings(): Promise<string> {
  const told = SETTING_NAMES.map((name) => {
    const { otherwise, takes } = aboutSetting(name);
    return `${name} = ${otherwise ?? '-'} (${takes})`;
  });
  return sorted(told);
}

type Column = Record<'relation' | 'what' | 'name' | 'type', string>;

const SQLITE_COLUMNS = `SELECT m.name AS relation, m.type AS what, c.name, c.type
  FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type IN ('table', 'view') ORDER BY m.name, c.cid`;
const POSTGRES_COLUMNS = `SELECT table_name AS relation, column_name AS name, data_type AS type,
    CASE table_type WHEN 'VIEW' THEN 'view' ELSE 'table' END AS what
  FROM information_schema.columns JOIN information_schema.tables USING (table_schema, table_name)
  WHERE table_schema = 'public' ORDER BY table_name, ordinal_position`;

/** Each column of what users read, with its type in SQLite and in PostgreSQL. Of tables, `export` knows which, and `fields` tells of columns. */
export async function tables(): Promise<string> {
  const server = await startPostgres();
  onTestFinished(() => server.stop());
  const url = await server.createDatabase();
  await (await openStore(url)).close();
  const file = new Database((await listener()).database, { readonly: true });
  const columns = [
    file.prepare(SQLITE_COLUMNS).all(),
    await server.query(POSTGRES_COLUMNS, url),
  ] as Column[][];
  file.close();
  const seen = new Map<string, string[]>();
  for (const [engine, { relation, what, name, type }] of columns.flatMap((all, at) =>
    all.map((one) => [at, one] as const),
  )) {
    if (what === 'table' && relation !== 'fields' && !READ_BY_USERS.includes(relation)) continue;
    const key = `${what} ${relation}.${name}`;
    seen.set(key, (seen.get(key) ?? ['missing', 'missing']).with(engine, type.toLowerCase() || 'untyped'));
  }
  return [...seen].map(([key, types]) => `${key}: ${types.join(' / ')}\n`).join('');
}

const ROOT = new URL('../../', import.meta.url);
/** What a column, a label or an answer may say, where a type closes the set. */
const WORDS = [
  ...['EventState', 'VERDICTS', 'ChangeOperation', 'SyncRunOutcome'],
  'TrimmedThing',
  ...['DeliveryOutcome', 'SignatureRejectionReason', 'NotJson', 'NoEvent', 'CauseCode'],
];

/** From the sources' text, since types are gone at run time. */
export async function words(): Promise<string> {
  const files = globSync('{src,sandbox}/**/*.{ts,tsx}', { cwd: ROOT });
  const source = files.map((path) => readFileSync(new URL(path, ROOT), 'utf8')).join('\n');
  const sets = WORDS.map((type) => {
    // A union, or the enum of a schema that is named alike.
    const set = new RegExp(`^(?:export )?(?:type|const) ${type} =([^;]*'[^;]*);`, 'mi').exec(source)?.[1];
    if (set === undefined) throw new Error(`there is no type ${type} any more: name what took its place`);
    return linesOf(type, [...set.matchAll(/'(\w+)'/g)]);
  });
  const problems = linesOf('problem', [...source.matchAll(/\b(?:problem|refusal)\(\s*\d{3},\s*'(\w+)'/g)]);
  const named = [...KINDS.map((kind) => `kind ${kind}\n`), ...EVENT_TYPES.map((type) => `type ${type}\n`)];
  const reasons = PROBLEM_REASONS.map((reason) => `reason ${reason}\n`);
  return [...named, ...reasons, ...sets, problems].join('');
}

const linesOf = (what: string, found: readonly RegExpMatchArray[]) =>
  sorted(new Set(found.map(([, word]) => `${what} ${word}`)));
