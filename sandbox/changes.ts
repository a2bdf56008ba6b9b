import { type EventType, KINDS, type Kind, kindOfType } from '../src/compliance/kinds.ts';
import type { JsonObject } from '../src/compliance/pointers.ts';
import type { EventAbout } from './deliveries.ts';
import { isAllowed, MACHINES, operationNamed } from './machines.ts';
import { between, integer, newId, pick } from './random.ts';
import { recordId } from './records.ts';
import { daysFrom } from './seed.ts';
import type { Mutation, Upstream } from './upstream.ts';

/** With this many records of a kind, no more are created. */
const MAX_RECORDS = 200;
/** With this many records of a kind, no more are deleted, so that there is always something to look at. */
const MIN_RECORDS = 4;

/** In percent, roughly as on a working day: many edits and few deletions. */
const WEIGHTS: Readonly<Record<Kind, Record<string, number>>> = {
  policy: { create: 7, update: 14, submit: 5, approve: 4, redraft: 3, archive: 1, delete: 2 },
  risk_assessment: { create: 9, assess: 12, mitigate: 7, escalate: 3 },
  vendor: { create: 7, update: 14, assess: 8, delete: 2 },
};
const WEIGHTED = KINDS.flatMap((kind) =>
  Object.entries(WEIGHTS[kind]).map(([op, weight]) => ({ kind, op, weight })),
);

/** New due dates are within this many days. */
const SOON_DAYS = 180;

const OWNERS = ['Security', 'Legal', 'People', 'Engineering', 'Operations', 'Procurement'];
const SUBJECTS = ['Access', 'Backups', 'Contracts', 'Devices', 'Encryption', 'Incidents', 'Privacy'];
const WORDS = ['Amber', 'Birch', 'Copper', 'Dune', 'Ember', 'Flint', 'Grove', 'Indigo', 'Juniper'];

/** A random change; null: no record allows the one that was drawn. */
export function nextMutation(upstream: Upstream, maxRecords: number = MAX_RECORDS): Mutation | null {
  const { kind, op } = drawWeighted();
  const { state } = upstream;
  const operation = operationNamed(kind, op)!;
  if (operation.effect === 'create') {
    if (state.count(kind) >= maxRecords) return null;
    return { kind, op, fields: newRecord(kind) };
  }
  if (operation.effect === 'delete' && state.count(kind) <= MIN_RECORDS) return null;
  const record = pick(state.list(kind).filter(({ status }) => isAllowed(operation, status)));
  if (record === undefined) return null;
  const fields = operation.effect === 'delete' ? {} : edit(kind, op);
  return { kind, op, id: recordId(kind, record), fields };
}

function drawWeighted(): { kind: Kind; op: string } {
  const all = WEIGHTED.reduce((sum, { weight }) => sum + weight, 0);
  let left = between(0, all);
  for (const entry of WEIGHTED) {
    left -= entry.weight;
    if (left < 0) return entry;
  }
  return WEIGHTED[0]!;
}

/** The operation that a new record needs before the given one. */
const BEFORE: Readonly<Record<string, string>> = { approve: 'submit', mitigate: 'assess' };

/**
 * Makes the change that this type of event announces. Without an id it takes a record that allows the change, or creates one and
 * changes it until it does, announcing each step. Returns the events in their order. @throws Problem as `apply` does.
 */
export function trigger(
  upstream: Upstream,
  request: { type: EventType; id?: string | undefined; fields?: JsonObject | undefined },
): EventAbout[] {
  const { type, fields = {} } = request;
  let { id } = request;
  const kind = kindOfType(type)!;
  // If several operations have this event, the first one is the simplest.
  const [op, operation] = Object.entries(MACHINES[kind]).find(([, { event }]) => event === type)!;
  const made: EventAbout[] = [];
  const perform = (op: string, id: string | undefined, values: JsonObject): string => {
    const change = upstream.apply({ kind, op, id, fields: values });
    const announced = upstream.announce(change);
    if (announced !== null) made.push(announced);
    return change.id;
  };
  const isNew = operation.effect === 'create';
  if (id === undefined && !isNew) {
    const ready = upstream.state.list(kind).filter(({ status }) => isAllowed(operation, status));
    const record = pick(ready);
    id = record === undefined ? perform('create', undefined, newRecord(kind)) : recordId(kind, record);
    const before = record === undefined ? BEFORE[op] : undefined;
    if (before !== undefined) perform(before, id, edit(kind, before));
  }
  const values = isNew ? newRecord(kind) : edit(kind, op);
  perform(op, id, operation.effect === 'delete' ? {} : { ...values, ...fields });
  return made;
}

function newRecord(kind: Kind): JsonObject {
  const owner = pick(OWNERS);
  const subject = pick(SUBJECTS);
  if (kind === 'policy') return { name: `${subject} policy`, owner, nextReviewAt: soon() };
  if (kind === 'risk_assessment') return { name: `${subject} at risk`, category: owner, owner };
  return {
    name: `${pick(WORDS)} ${pick(WORDS)} ${subject}`,
    tier: integer(1, 3),
    owner,
    contractEnds: soon(),
  };
}

/** Never rates a vendor: a seed may have real companies, and no rating of one must be invented. */
function edit(kind: Kind, op: string): JsonObject {
  const owner = pick(OWNERS);
  if (kind === 'policy') return { owner, reviewIntervalMonths: integer(3, 24) };
  if (kind === 'vendor') return { owner, notes: newId('note '), nextReviewAt: soon() };
  const [likelihood, impact] = [integer(1, 5), integer(1, 5)];
  const isMitigated = op === 'mitigate';
  const residualScore = isMitigated ? (likelihood * impact) / 2 : likelihood * impact;
  const treatment = isMitigated ? 'mitigate' : 'review';
  return { likelihood, impact, residualScore, owner, treatment, dueDate: soon() };
}

const soon = (): string => daysFrom(new Date(), integer(1, SOON_DAYS));
