import { parseJson } from '../compliance/json.ts';
import { type Column, drizzleModule, type Table } from './schema.ts';

const drizzle = drizzleModule('drizzle-orm');

/** A statement or a part of one: its text before, between and after its parameters. */
export class SQL {
  readonly texts: readonly string[];
  readonly params: readonly unknown[];
  constructor(texts: readonly string[], params: readonly unknown[]) {
    this.texts = texts;
    this.params = params;
  }
}

/**
 * Statements as text. `${}` takes a table or column of the schema, which becomes its name, another part, or a parameter. Not drizzle's tag of
 * this name: it takes 70 µs to write one of our statements, more than most take to run.
 */
export function sql(strings: TemplateStringsArray, ...values: readonly unknown[]): SQL {
  let text = strings[0]!;
  const texts: string[] = [];
  const params: unknown[] = [];
  for (const [nth, value] of values.entries()) {
    if (value instanceof SQL) {
      const [first, ...rest] = value.texts;
      text += first;
      for (const part of rest) {
        texts.push(text);
        text = part;
      }
      params.push(...value.params);
    } else if (value instanceof drizzle.Column || value instanceof drizzle.Table) {
      text += nameOf(value);
    } else {
      params.push(value);
      texts.push(text);
      text = '';
    }
    text += strings[nth + 1]!;
  }
  return new SQL([...texts, text], params);
}

/** Text as it stands: only of the code. */
sql.raw = (text: string): SQL => new SQL([text], []);
sql.identifier = (name: string): SQL => sql.raw(quoted(name));
sql.join = (parts: readonly SQL[], separator = ', '): SQL => {
  const [first = sql``, ...others] = parts;
  return others.reduce((whole, part) => sql`${whole}${sql.raw(separator)}${part}`, first);
};

/** A parameter for a JSON column, or JSON beside one. Null stays null. */
export const json = (value: unknown): Json | null => (value == null ? null : new Json(value));

export class Json {
  readonly value: unknown;
  constructor(value: unknown) {
    this.value = value;
  }
}

/** What a JSON column holds: SQLite gives its text. */
export const fromJson = (stored: unknown): unknown =>
  typeof stored === 'string' ? parseJson(stored) : stored;

/** A name in SQL. */
export const quoted = (name: string): string => `"${name.replaceAll('"', '""')}"`;

const names = new Map<Column | Table, string>();

/** `"table"."column"`, or `"table"`. */
function nameOf(named: Column | Table): string {
  let name = names.get(named);
  if (name === undefined) {
    name =
      named instanceof drizzle.Column
        ? `${nameOf(named.table)}.${quoted(named.name)}`
        : quoted(drizzle.getTableName(named));
    names.set(named, name);
  }
  return name;
}
