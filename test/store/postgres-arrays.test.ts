import fc from 'fast-check';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { bigintArray, TYPES, textArray, timestampArray } from '../../src/store/postgres/dialect.ts';
import { type PostgresServer, startPostgres } from '../postgres/server.ts';

/** What PostgreSQL itself makes of them. */
let server: PostgresServer;
let client: pg.Client;
beforeAll(async () => {
  server = await startPostgres();
  client = new pg.Client({ connectionString: server.url(), types: TYPES });
  await client.connect();
  await client.query("SET timezone = 'UTC'");
});
afterAll(async () => {
  await client?.end();
  await server?.stop();
});

async function elements(array: Buffer, type: string): Promise<unknown[]> {
  const { rows } = await client.query<{ element: unknown }>(
    `SELECT element FROM unnest($1::${type}[]) WITH ORDINALITY AS x (element, place) ORDER BY place`,
    [array],
  );
  return rows.map(({ element }) => element);
}

const text = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 40 }),
  fc.constantFrom('', 'NULL', '{"a":"\\\\"}', '\u0000', '\ud800', '漢字 é 💥'),
);

describe('an array in the binary format', () => {
  it('gives PostgreSQL the texts that went in, nulls and hostile ones too', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.option(text), { maxLength: 40 }), async (texts) => {
        expect(await elements(textArray(texts), 'text')).toEqual(texts);
      }),
    );
  });

  it('gives PostgreSQL the integers that went in, nulls too, and rounds those of a clock', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.option(fc.maxSafeInteger()), { maxLength: 40 }), async (numbers) => {
        expect(await elements(bigintArray(numbers), 'bigint')).toEqual(numbers);
      }),
    );
    expect(await elements(bigintArray([1.5, null, -1.5, 2.4]), 'bigint')).toEqual([2, null, -1, 2]);
  });

  it('gives PostgreSQL the instants that their texts would', async () => {
    const wall = fc.date({ min: new Date('-004000-01-01T00:00:00Z'), noInvalidDate: true }).map(Number);
    await fc.assert(
      fc.asyncProperty(fc.array(fc.option(wall), { minLength: 1, maxLength: 40 }), async (walls) => {
        const { rows } = await client.query<{ same: boolean }>(
          'SELECT $1::timestamptz[] = $2::timestamptz[] AS same',
          [
            timestampArray(walls),
            walls.map((each) => (each === null ? null : written(new Date(each).toISOString()))),
          ],
        );
        expect(rows).toEqual([{ same: true }]);
      }),
    );
  });
});

/** An instant as the server reads it from a text: neither more than four digits of a year nor year 0. */
function written(iso: string): string {
  if (iso.length === 24 && !iso.startsWith('0000')) return iso;
  const [, sign = '', digits, rest] = /^([+-]?)(\d+)-(.*)Z$/.exec(iso) ?? [];
  const year = Number(`${sign}${digits}`);
  if (year > 0) return `${year}-${rest}Z`;
  return `${String(1 - year).padStart(4, '0')}-${rest?.replace('T', ' ')}+00 BC`;
}
