import {
  type Column as AnyColumn,
  type Table as AnyTable,
  drizzleModule,
  type SQL as Statement,
} from './drizzle.ts';

// As they are: asked of the module, each is a getter of a getter.
const { Column, Name, Param, SQL, StringChunk, Table, sql } = drizzleModule('drizzle-orm');

type Dialect = Record<'sqlToQuery', (statement: Statement) => { sql: string; params: unknown[] }>;
type AnyName = ReturnType<typeof sql.identifier>;

export interface Written {
  text: string;
  params: unknown[];
}

/**
 * Writes statements as drizzle does for the dialect. It asks of each part which of a dozen things it is: 70 µs for one of our
 * statements, more than most of them take to run. Ours are of texts, names and values, which are told apart here; of a name
 * drizzle is asked once, and of a statement with anything else in it each time.
 */
export function createWriter(
  dialect: Dialect,
  placeholder: (position: number) => string,
): (statement: Statement) => Written {
  const names = new Map<AnyColumn | AnyTable | string, string>();

  function nameOf(key: AnyColumn | AnyTable | string, part: AnyColumn | AnyTable | AnyName): string {
    let name = names.get(key);
    if (name === undefined) {
      name = dialect.sqlToQuery(sql`${part}`).sql;
      names.set(key, name);
    }
    return name;
  }

  /** False: there is something else in it. */
  function write(parts: readonly unknown[], to: Written): boolean {
    for (const part of parts) {
      if (part === undefined) continue;
      if (part instanceof StringChunk) to.text += part.value.join('');
      else if (part instanceof SQL) {
        if (!write(part.queryChunks, to)) return false;
      } else if (part instanceof Column || part instanceof Table) to.text += nameOf(part, part);
      else if (part instanceof Name) to.text += nameOf(part.value, part);
      else if (part instanceof Param) add(part.value, to);
      else if (typeof part !== 'object' || part === null || part instanceof Uint8Array) add(part, to);
      else return false;
    }
    return true;
  }

  function add(value: unknown, to: Written): void {
    to.params.push(value);
    to.text += placeholder(to.params.length);
  }

  return (statement) => {
    const written: Written = { text: '', params: [] };
    if (write(statement.queryChunks, written)) return written;
    const { sql: text, params } = dialect.sqlToQuery(statement);
    return { text, params };
  };
}
