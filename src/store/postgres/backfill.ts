import { decideApply, decideMissing } from '../../mirror/decide.ts';
import { contentOf, diffContent, differingNames } from '../../mirror/merge.ts';
import { assessmentsNamedIn } from '../../process/handlers.ts';
import type { Applied, BackfillStore, ReadMoment, ReadObject } from '../store.ts';
import type { Database, Sql, Unit } from './connection.ts';
import { isConsented, letGo } from './deletions.ts';
import { makeKnown } from './due.ts';
import { healRecords } from './gaps.ts';
import {
  type Change,
  type Held,
  isoOf,
  lastEvents,
  loadRecords,
  saveRecords,
  writeContent,
} from './records.ts';

type ReadVerbs = Pick<BackfillStore, 'applyReads' | 'compareReads' | 'recordMissing'>;
type ApplyContext = Parameters<BackfillStore['applyReads']>[3];

/** The verbs that bring rows into step with what the API showed. */
export function createBackfillVerbs(database: Database): ReadVerbs {
  return {
    async applyReads(kind, objects, read, context) {
      const nowIso = isoOf(read.endedWall);
      const ids = objects.map((object) => object.id);
      return await database.transact(
        async (unit, records) => {
          const rowless = [...records.values()].filter((held) => held.known && held.row === null);
          const events = await lastEvents(
            unit,
            kind,
            rowless.map((held) => held.id),
          );
          const changes: Change[] = [];
          const applied = objects.map((object) => {
            const held = records.get(object.id)!;
            return applyOne(held, object, read, {
              ...{ ...context, nowIso, numbers: unit.numbers, changes },
              lastEvent: events.get(object.id),
            });
          });
          saveRecords(unit, records.values(), changes, nowIso);
          const verified = applied.filter((one) => one.verified).map((one) => one.id);
          await healRecords(unit, kind, verified, nowIso);
          await letGo(unit, kind, verified, nowIso);
          const named = objects.flatMap((object) => assessmentsNamedIn(object.data, kind, context.pointers));
          await makeKnown(unit, 'risk_assessment', named, { wall: read.endedWall, steady: read.endedAt });
          return applied;
        },
        (sql: Sql) => loadRecords(sql, kind, ids),
      );
    },

    async compareReads(kind, objects) {
      const records = await loadRecords(
        database.sql,
        kind,
        objects.map((object) => object.id),
      );
      return objects.map(({ id, data }) => {
        const row = records.get(id)?.row ?? null;
        if (row === null || row.deletedAt !== null) return { id, what: 'missing', fields: [] };
        const change = diffContent(row, contentOf(kind, data, null));
        return change === null
          ? { id, what: 'same', fields: [] }
          : { id, what: 'different', fields: differingNames(change) };
      });
    },

    async recordMissing(kind, id, read, context) {
      const load = (sql: Sql) =>
        Promise.all([loadRecords(sql, kind, [id]), isConsented(sql, kind, id, isoOf(read.endedWall))]);
      return await database.transact(async (unit, [records, agreed]) => {
        const held = records.get(id)!;
        const decision = decideMissing(read, held, { ...context, agreed }, context.timing);
        held.state = decision.state;
        saveRecords(unit, [held], [], isoOf(read.endedWall));
        return decision.outcome;
      }, load);
    },
  };
}

interface ApplyOne extends ApplyContext {
  nowIso: string;
  numbers: Unit['numbers'];
  changes: Change[];
  lastEvent: { id: string; createdMs: number } | undefined;
}

function applyOne(held: Held, object: ReadObject, read: ReadMoment, context: ApplyOne): Applied {
  const { unverifiedSince } = held.state;
  const wasAlive = held.row !== null && held.row.deletedAt === null && held.state.returned;
  const decision = decideApply(held.kind, object.data, read, held, context.timing);
  held.state = decision.state;
  if (decision.row !== null && decision.change !== null) {
    context.changes.push(writeContent(held, decision.row, decision.change, context));
  }
  if (decision.confirmed && held.row !== null) held.row.verifiedAt = context.nowIso;
  held.sweepId = context.sweepId;
  const verified = held.state.unverifiedSince === null;
  return {
    id: object.id,
    outcome: decision.outcome,
    differences: decision.change === null ? [] : differingNames(decision.change),
    verified,
    lagMs: verified && unverifiedSince !== null ? read.endedWall - unverifiedSince : null,
    witness: wasAlive,
    announced: unverifiedSince !== null,
  };
}
