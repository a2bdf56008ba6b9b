import { createRequire } from 'node:module';

/**
 * Preloaded into a service (`node --import`), its threads included: the commit of what has written something takes so many
 * milliseconds longer, as on a disk that is slow to flush.
 */
const milliseconds = Number(process.env['SLOW_FLUSH_MS'] ?? 0);

interface Statement {
  run(...values: unknown[]): unknown;
  pluck(): { get(): number };
}
type Prepare = (this: object, sql: string) => Statement;

const { prototype } = createRequire(import.meta.url)('better-sqlite3') as { prototype: { prepare: Prepare } };
const { prepare } = prototype;
const never = new Int32Array(new SharedArrayBuffer(4));

if (milliseconds > 0) {
  prototype.prepare = function (sql) {
    const statement = prepare.call(this, sql);
    if (sql !== 'COMMIT') return statement;
    const written = prepare.call(this, 'SELECT total_changes()').pluck();
    let before = 0;
    const run = statement.run.bind(statement);
    statement.run = (...values) => {
      const now = written.get();
      if (now !== before) Atomics.wait(never, 0, 0, milliseconds);
      before = now;
      return run(...values);
    };
    return statement;
  };
}
