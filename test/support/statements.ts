import Database from 'better-sqlite3';

type Verb = 'all' | 'get' | 'iterate' | 'run';

/** Tells of each statement that any connection to SQLite runs in this process, until what it returns is called. */
export function hearStatements(heard: (sql: string) => void): () => void {
  const db = new Database(':memory:');
  const statement = Object.getPrototypeOf(db.prepare('SELECT 1')) as Record<
    Verb,
    (this: { source: string }, ...args: unknown[]) => unknown
  >;
  db.close();
  const { all, get, iterate, run } = statement;
  const originals = { all, get, iterate, run };
  for (const verb of Object.keys(originals) as Verb[]) {
    statement[verb] = function (...args) {
      heard(this.source);
      return originals[verb].apply(this, args);
    };
  }
  return () => Object.assign(statement, originals);
}
