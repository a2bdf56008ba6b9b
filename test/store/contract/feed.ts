import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseJson } from '../../../src/compliance/json.ts';
import { KINDS, type Kind } from '../../../src/compliance/kinds.ts';
import type { JsonObject } from '../../../src/compliance/pointers.ts';
import type { ChangeReport } from '../../../src/store/reports.ts';
import { IS_FULL } from '../../support/full.ts';
import { createScene, type OpenEngine, type Scene, SETTLE_MS } from '../scene.ts';

/** Histories tried: each opens a database of its own. */
const RUNS = IS_FULL ? 60 : 6;
const COLUMNS = ['name', 'version', 'status', 'deleted_at'] as const;
const TABLES = { policy: 'policies', risk_assessment: 'risk_assessments', vendor: 'vendors' } as const;
const DELETES: Record<Kind, string> = {
  policy: 'policy.deleted',
  vendor: 'vendor.removed',
  risk_assessment: 'risk.mitigated',
};

const fields = fc.dictionary(
  fc.constantFrom('name', 'version', 'status', 'owner', 'note', '__proto__', 'constructor', ''),
  fc.oneof(
    fc.string(),
    fc.constant(null),
    fc.jsonValue({ maxDepth: 2 }),
    fc.constantFrom(-0, [-0], { x: Number.POSITIVE_INFINITY }, '\ud800'),
  ),
  { maxKeys: 5 },
);
const step = fc.record({
  verb: fc.constantFrom(
    'event',
    'event',
    'delete event',
    'work',
    'read',
    'read',
    'stale read',
    'absent',
    'missing',
    'conclude',
    'pass',
  ),
  kind: fc.constantFrom(...KINDS),
  n: fc.nat(3),
  fields,
});
type Step = { verb: string; kind: Kind; n: number; fields: JsonObject };

export function describeFeed(open: OpenEngine): void {
  describe('the feed of changes', () => {
    it('rebuilds the three tables exactly, in the order of commits, whatever happened', async () => {
      await fc.assert(
        fc.asyncProperty(fc.array(step, { maxLength: 40 }), fc.boolean(), async (history, eventsOnly) => {
          const scene = await createScene(open);
          try {
            let began = await scene.beginRead();
            let seen = 0;
            for (const one of history) {
              if (one.verb === 'pass') began = await scene.beginRead();
              await take(scene, one as Step, eventsOnly, began);
              // What a follower has read stays behind it.
              const tail = (await scene.store.list('changes', { oldestFirst: true, after: seen, limit: 500 }))
                .items;
              expect(tail.every((change) => change.seq > seen)).toBe(true);
              seen = tail.at(-1)?.seq ?? seen;
            }
            const changes = (await scene.store.list('changes', { oldestFirst: true, after: 0, limit: 500 }))
              .items;
            expect(changes.at(-1)?.seq ?? 0).toBe(seen);
            expect(new Set(changes.map((change) => change.seq)).size).toBe(changes.length);
            expect(fold(changes)).toEqual(await tables(scene));
            expect(await lastChanges(scene)).toEqual(
              new Map(changes.map((change) => [`${change.kind} ${change.record_id}`, change.seq])),
            );
          } finally {
            await scene.close();
          }
        }),
        { numRuns: RUNS },
      );
    });
  });
}

async function take(
  scene: Scene,
  { verb, kind, n, fields }: Step,
  eventsOnly: boolean,
  began: { number: number; beganAt: number },
) {
  const id = `rec_${n}`;
  switch (verb) {
    case 'event':
      await scene.accept(scene.event({ kind, recordId: id, shows: fields }));
      break;
    case 'delete event':
      await scene.accept(scene.event({ kind, type: DELETES[kind], recordId: id, shows: fields }));
      break;
    case 'work':
      await scene.work({ eventsOnly });
      break;
    case 'read':
      await scene.show(kind, id, fields);
      break;
    case 'stale read':
      await scene.show(kind, id, fields, began);
      break;
    case 'absent':
      await scene.conclude(kind, { absent: [id] });
      break;
    case 'missing':
      await scene.missing(kind, id);
      break;
    case 'conclude':
      await scene.conclude(kind);
      break;
    default:
      scene.pass((n * SETTLE_MS) / 2);
  }
}

/** Of each row, the change that it says its content came with. */
async function lastChanges(scene: Scene): Promise<Map<string, number>> {
  const rows = await scene.query(
    KINDS.map((kind) => `SELECT '${kind}' AS kind, id, change_seq FROM ${TABLES[kind]}`).join(' UNION ALL '),
  );
  return new Map(rows.map((row) => [`${row['kind']} ${row['id']}`, Number(row['change_seq'])]));
}

/** What a follower of the feed would hold: it knows nothing but the changes. */
function fold(changes: readonly ChangeReport[]): Map<string, JsonObject> {
  const held = new Map<string, JsonObject>();
  for (const { kind, record_id, operation, before, after } of changes) {
    const key = `${kind} ${record_id}`;
    const row = held.get(key);
    expect(operation === 'insert').toBe(row === undefined);
    const next: JsonObject = {
      ...(row ?? { name: null, version: null, status: null, deleted_at: null, data: {} }),
    };
    for (const column of COLUMNS) {
      if (row !== undefined && Object.hasOwn(before, column)) expect(row[column]).toEqual(before[column]);
      if (Object.hasOwn(after, column)) next[column] = after[column];
    }
    const gone = Object.entries((before['data'] ?? {}) as JsonObject);
    const come = Object.entries((after['data'] ?? {}) as JsonObject);
    const data = new Map(Object.entries(next['data'] as JsonObject));
    for (const [field, value] of gone) {
      expect(isDeepStrictEqual(data.get(field), value)).toBe(true);
      data.delete(field);
    }
    for (const [field, value] of come) data.set(field, value);
    held.set(key, { ...next, data: Object.fromEntries(data) });
  }
  return held;
}

async function tables(scene: Scene): Promise<Map<string, JsonObject>> {
  const held = new Map<string, JsonObject>();
  for (const kind of KINDS) {
    const version = kind === 'policy' ? 'version' : 'NULL AS version';
    for (const row of await scene.query(
      `SELECT id, name, ${version}, status, deleted_at, data FROM ${TABLES[kind]}`,
    )) {
      const { id, data, ...columns } = row;
      const parsed = typeof data === 'string' ? (parseJson(data) as JsonObject) : data;
      held.set(`${kind} ${id}`, { ...columns, data: parsed });
    }
  }
  return held;
}
