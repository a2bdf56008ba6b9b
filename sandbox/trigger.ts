import { type EventType, KINDS, type Kind } from '../src/compliance/kinds.ts';
import type { JsonObject } from '../src/compliance/pointers.ts';
import type { EventAbout } from './deliveries.ts';
import { edit, newRecord } from './lively.ts';
import { isAllowed, MACHINES, type Operation } from './machines.ts';
import { Problem } from './problems.ts';
import type { Random } from './random.ts';
import { recordId } from './records.ts';
import { keptId } from './shaping.ts';
import type { Upstream } from './upstream.ts';

interface TriggerRequest {
  type: EventType;
  /** As readers see it; absent: one by chance. */
  id?: string | undefined;
  /** Set on the record, over what it has. */
  fields?: JsonObject | undefined;
}

interface Step {
  op: string;
  operation: Operation;
}

/**
 * Makes the change that this type of event tells of. A record that is picked here, and not named, is first brought to where
 * the change is possible, step by step, each announced. Returns the events in their order. Throws a Problem as `apply` does.
 */
export function trigger(
  upstream: Upstream,
  random: Random,
  { type, id: shown, fields = {} }: TriggerRequest,
): EventAbout[] {
  const [kind, wanted] = stepOf(type);
  const perform = (op: string, id: string | undefined, values: JsonObject) =>
    upstream.perform({ kind, op, id, fields: values }, { silent: false });
  if (wanted.operation.effect === 'create') {
    const id = shown === undefined ? undefined : keptId(kind, shown, upstream.shapes);
    return announced([perform(wanted.op, id, { ...newRecord(kind, random), ...fields })]);
  }
  const values = wanted.operation.effect === 'delete' ? {} : { ...edit(kind, wanted.op, random), ...fields };
  if (shown !== undefined) {
    return announced([perform(wanted.op, keptId(kind, shown, upstream.shapes), values)]);
  }
  const made =
    upstream.state.count(kind) === 0 ? [perform('create', undefined, newRecord(kind, random))] : [];
  const records = upstream.state.list(kind);
  const ready = records.filter(({ status }) => isAllowed(wanted.operation, status));
  const record = random.pick(ready.length > 0 ? ready : records)!;
  const id = recordId(kind, record);
  const before = stepsTo(kind, record['status'], wanted.operation);
  const brought = before.map(({ op }) => perform(op, id, edit(kind, op, random)));
  return announced([...made, ...brought, perform(wanted.op, id, values)]);
}

const announced = (performed: readonly { announced: EventAbout | null }[]): EventAbout[] =>
  performed.flatMap(({ announced: about }) => (about === null ? [] : [about]));

/** The first, and so the plainest, operation that announces itself so. */
function stepOf(type: EventType): [Kind, Step] {
  for (const kind of KINDS) {
    const found = stepsOf(kind).find(({ operation }) => operation.event === type);
    if (found !== undefined) return [kind, found];
  }
  throw new Problem(422, 'unknown_type', `No operation of the sandbox announces ${type}.`);
}

const stepsOf = (kind: Kind): Step[] =>
  Object.entries(MACHINES[kind].operations).map(([op, operation]) => ({ op, operation }));

/** The shortest way from a status to one in which `wanted` is possible. */
function stepsTo(kind: Kind, status: unknown, wanted: Operation): Step[] {
  const seen = new Set([status]);
  let ways: { at: unknown; steps: Step[] }[] = [{ at: status, steps: [] }];
  while (ways.length > 0) {
    const arrived = ways.find(({ at }) => isAllowed(wanted, at));
    if (arrived !== undefined) return arrived.steps;
    ways = ways.flatMap(({ at, steps }) =>
      stepsOf(kind).flatMap((step) => {
        const { effect, to } = step.operation;
        if (effect !== 'change' || to === null || seen.has(to) || !isAllowed(step.operation, at)) return [];
        seen.add(to);
        return [{ at: to, steps: [...steps, step] }];
      }),
    );
  }
  throw new Problem(409, 'impossible_transition', `No ${kind} can be brought to where this is possible.`);
}
