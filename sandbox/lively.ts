import { setTimeout as sleep } from 'node:timers/promises';
import { type EventType, KINDS, type Kind, kindOfType } from '../src/compliance/kinds.ts';
import type { JsonObject } from '../src/compliance/pointers.ts';
import type { EventAbout } from './deliveries.ts';
import { isAllowed, MACHINES, operationNamed } from './machines.ts';
import type { Random } from './random.ts';
import { recordId } from './records.ts';
import { daysFrom } from './seed.ts';
import type { Mutation, Upstream } from './upstream.ts';

/** With this many records of a kind, no more are created. */
const MAX_RECORDS = 200;
/** With this many records of a kind, no more are deleted, so that there is always something to look at. */
const MIN_RECORDS = 4;

/** The pause between two changes differs from its average by up to this share. */
const PAUSE_SPREAD = 0.5;

/** In percent, roughly as on a working day: many edits and few deletions. */
const WEIGHTS: Readonly<Record<Kind, Record<string, number>>> = {
  policy: { create: 7, update: 14, submit: 5, approve: 4, redraft: 3, archive: 1, delete: 3 },
  risk_assessment: { create: 9, assess: 12, mitigate: 7, escalate: 3 },
  vendor: { create: 7, update: 14, assess: 8, delete: 3 },
};
const WEIGHTED = KINDS.flatMap((kind) =>
  Object.entries(WEIGHTS[kind]).map(([op, weight]) => ({ kind, op, weight })),
);

/** New due dates are within this many days. */
const SOON_DAYS = 180;

const OWNERS = ['Security', 'Legal', 'People', 'Engineering', 'Operations', 'Procurement'];
const CATEGORIES = ['Information security', 'Privacy', 'People', 'Operations'];
const CRITICALITIES = ['low', 'medium', 'high', 'critical'];
const SUBJECTS = ['Access', 'Backups', 'Contracts', 'Devices', 'Encryption', 'Incidents', 'Privacy'];
const WORDS = ['Amber', 'Birch', 'Copper', 'Dune', 'Ember', 'Flint', 'Grove', 'Harbour', 'Indigo', 'Juniper'];
const TRADES = ['Logistics', 'Hosting', 'Payroll', 'Analytics', 'Catering', 'Translations', 'Couriers'];

/** Makes one change after another until `signal` aborts. Rejects only if the sandbox itself is broken. */
export async function runLively(
  upstream: Upstream,
  random: Random,
  perSecond: number,
  reserved: ReadonlySet<string>,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    const mutation = nextMutation(upstream, random, MAX_RECORDS, reserved);
    if (mutation !== null) upstream.announce(upstream.apply(mutation));
    const waitMs = (1000 / perSecond) * random.between(1 - PAUSE_SPREAD, 1 + PAUSE_SPREAD);
    await sleep(waitMs, undefined, { signal }).catch(() => undefined);
  }
}

/** A random change; null: no record allows the one that was drawn. */
export function nextMutation(
  upstream: Upstream,
  random: Random,
  maxRecords: number,
  reserved: ReadonlySet<string>,
): Mutation | null {
  const { kind, op } = drawWeighted(random);
  const { state } = upstream;
  const operation = operationNamed(kind, op)!;
  if (operation.effect === 'create') {
    if (state.count(kind) >= maxRecords) return null;
    return { kind, op, fields: newRecord(kind, random) };
  }
  if (operation.effect === 'delete' && state.count(kind) <= MIN_RECORDS) return null;
  const record = random.pick(
    state
      .list(kind)
      .filter((candidate) => isAllowed(operation, candidate.status))
      .filter((candidate) => !reserved.has(`${kind}/${recordId(kind, candidate)}`)),
  );
  if (record === undefined) return null;
  const fields = operation.effect === 'delete' ? {} : edit(kind, op, random);
  return { kind, op, id: recordId(kind, record), fields };
}

function drawWeighted(random: Random): { kind: Kind; op: string } {
  const all = WEIGHTED.reduce((sum, { weight }) => sum + weight, 0);
  let left = random.between(0, all);
  for (const entry of WEIGHTED) {
    left -= entry.weight;
    if (left < 0) return entry;
  }
  return WEIGHTED[0]!;
}

interface TriggerRequest {
  type: EventType;
  /** The record's id as readers see it; absent: a random record. */
  id?: string | undefined;
  /** Fields to set on the record. */
  fields?: JsonObject | undefined;
}

/** The operation that a new record needs before the given one. */
const BEFORE: Readonly<Record<string, string>> = { approve: 'submit', mitigate: 'assess' };

/**
 * Makes the change that this type of event announces. Without an id it takes a record that allows the change, or creates one and
 * changes it until it does, announcing each step. Returns the events in their order. @throws Problem as `apply` does.
 */
export function trigger(
  upstream: Upstream,
  random: Random,
  { type, id: shown, fields = {} }: TriggerRequest,
): EventAbout[] {
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
  let id = shown === undefined ? undefined : upstream.idShownAs(kind, shown);
  if (id === undefined && !isNew) {
    const ready = upstream.state.list(kind).filter(({ status }) => isAllowed(operation, status));
    const record = random.pick(ready);
    id =
      record === undefined ? perform('create', undefined, newRecord(kind, random)) : recordId(kind, record);
    const before = record === undefined ? BEFORE[op] : undefined;
    if (before !== undefined) perform(before, id, edit(kind, before, random));
  }
  const values = isNew ? newRecord(kind, random) : edit(kind, op, random);
  perform(op, id, operation.effect === 'delete' ? {} : { ...values, ...fields });
  return made;
}

function newRecord(kind: Kind, random: Random): JsonObject {
  const owner = random.pick(OWNERS);
  const nextReviewAt = soon(random);
  if (kind === 'policy') {
    const name = `${random.pick(SUBJECTS)} policy`;
    return { name, owner, category: random.pick(CATEGORIES), nextReviewAt };
  }
  if (kind === 'vendor') {
    const trade = random.pick(TRADES)!;
    return {
      name: `${random.pick(WORDS)} ${random.pick(WORDS)} ${trade}`,
      category: trade.toUpperCase(),
      tier: random.integer(1, 3),
      criticality: random.pick(CRITICALITIES),
      owner,
      contractEnds: soon(random),
      nextReviewAt,
    };
  }
  return { name: `${random.pick(SUBJECTS)} at risk`, category: random.pick(CATEGORIES), owner };
}

/** Never rates a vendor: a seed may have real companies, and no rating of one must be invented. */
function edit(kind: Kind, op: string, random: Random): JsonObject {
  const owner = random.pick(OWNERS);
  if (kind === 'policy') {
    if (op === 'update') return { owner, reviewIntervalMonths: random.integer(3, 24) };
    return op === 'approve' ? { owner, approver: `Head of ${owner}`, nextReviewAt: soon(random) } : { owner };
  }
  if (kind === 'vendor') {
    return op === 'assess'
      ? { lastAssessedAt: new Date().toISOString(), nextReviewAt: soon(random) }
      : { owner, notes: random.id('note ') };
  }
  const [likelihood, impact] = [random.integer(1, 5), random.integer(1, 5)];
  const isMitigated = op === 'mitigate';
  const residualScore = isMitigated ? (likelihood * impact) / 2 : likelihood * impact;
  const treatment = isMitigated ? 'mitigate' : 'review';
  return { likelihood, impact, residualScore, owner, treatment, dueDate: soon(random) };
}

const soon = (random: Random): string => daysFrom(new Date(), random.integer(1, SOON_DAYS));
