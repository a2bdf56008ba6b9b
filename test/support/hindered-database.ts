import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';

/**
 * Preloaded into a service (`node --import`), and so into its threads: hinders what it does with SQLite.
 * - `SLOW_FLUSH_MS`: a commit that waits for the disk, of what has written something, takes so many milliseconds longer.
 * - `HINDRANCES`: a folder. While the file `commit` or `report` is in it, a commit or a report stands still; while `commit-fault` or
 *   `report-fault` is, the thread that is at one breaks.
 */
const flushMs = Number(process.env['SLOW_FLUSH_MS'] ?? 0);
const folder = process.env['HINDRANCES'];
const LOOK_EVERY_MS = 5;

interface Statement {
  run(...values: unknown[]): unknown;
  pluck(): { get(): number };
}
type Connection = object & { pragma(source: string, options: { simple: true }): unknown };
type Prepare = (this: Connection, sql: string) => Statement;

const { prototype } = createRequire(import.meta.url)('better-sqlite3') as { prototype: { prepare: Prepare } };
const { prepare } = prototype;
const never = new Int32Array(new SharedArrayBuffer(4));
const wait = (ms: number) => void Atomics.wait(never, 0, 0, ms);
const is = (hindrance: string) => folder !== undefined && existsSync(join(folder, hindrance));

function standStill(at: 'commit' | 'report'): void {
  if (is(`${at}-fault`)) {
    queueMicrotask(() => {
      throw new Error('a fault of its own');
    });
  }
  while (is(at)) wait(LOOK_EVERY_MS);
}

function beforeRun(statement: Statement, hinder: () => void): Statement {
  const run = statement.run.bind(statement);
  statement.run = (...values) => {
    hinder();
    return run(...values);
  };
  return statement;
}

prototype.prepare = function (sql) {
  const statement = prepare.call(this, sql);
  // With a plain BEGIN reports begin, and nothing else.
  if (sql === 'BEGIN') return beforeRun(statement, () => standStill('report'));
  if (sql !== 'COMMIT') return statement;
  const written = prepare.call(this, 'SELECT total_changes()').pluck();
  let before = 0;
  return beforeRun(statement, () => {
    standStill('commit');
    const now = flushMs > 0 ? written.get() : before;
    if (now !== before && this.pragma('synchronous', { simple: true }) === 2) wait(flushMs);
    before = now;
  });
};
