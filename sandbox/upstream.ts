import type { EventType, Kind } from '../src/compliance/kinds.ts';
import { isUsableId, type JsonObject } from '../src/compliance/pointers.ts';
import type { Deliveries, EventAbout } from './deliveries.ts';
import { isAllowed, MACHINES, nextVersion, type Operation, operationNamed } from './machines.ts';
import { Problem, unfit } from './problems.ts';
import { newId } from './random.ts';
import { eventData, flawOf, MAX_RECORDS_PER_KIND, NAMES, recordId } from './records.ts';
import type { RecordState } from './state.ts';

export interface Mutation {
  kind: Kind;
  /** An operation of the kind. */
  op: string;
  /** The record's id. A create may leave it out. */
  id?: string | undefined;
  /** Fields to set on the record. */
  fields?: JsonObject | undefined;
}

export interface Change {
  kind: Kind;
  id: string;
  /** Null: deleted. */
  record: JsonObject | null;
  /** Null: the specification has no event for this change. */
  type: EventType | null;
  /** The record that an event describes. */
  described: JsonObject;
}

/** Changes records by the rules of their machines, and announces the changes. */
export class Upstream {
  readonly state: RecordState;
  readonly deliveries: Deliveries;

  constructor(state: RecordState, deliveries: Deliveries) {
    this.state = state;
    this.deliveries = deliveries;
  }

  /** Changes a record without an event. @throws Problem: 404, 409 for an impossible operation, 422 for bad fields. */
  apply(mutation: Mutation): Change {
    const operation = operationNamed(mutation.kind, mutation.op);
    if (operation === null) {
      const known = Object.keys(MACHINES[mutation.kind]).join(', ');
      throw new Problem(422, 'unknown_operation', `A ${mutation.kind} knows these operations: ${known}.`);
    }
    if (operation.effect === 'create') return this.#create(mutation, operation);
    return this.#change(mutation, operation);
  }

  /** Sends the change's event; null: it has none. */
  announce({ kind, id, type, described }: Change): EventAbout | null {
    if (type === null) return null;
    const about: EventAbout = {
      event: {
        id: newId('evt-'),
        type,
        created: new Date().toISOString(),
        data: eventData(kind, described),
      },
      kind,
      recordId: id,
    };
    this.deliveries.dispatch(about);
    return about;
  }

  /** Assessments without a delivered event: a mirror can know one only if another record names it. */
  unannounced(): string[] {
    const ids = this.state.list('risk_assessment').map((record) => recordId('risk_assessment', record));
    return ids.filter((id) => !this.deliveries.announced.has(`risk_assessment/${id}`));
  }

  #create({ kind, id: given, fields }: Mutation, operation: Operation): Change {
    if (given !== undefined && !isUsableId(given)) {
      throw unfit('An id is 1 to 255 characters without control characters.');
    }
    if (given !== undefined && this.state.get(kind, given) !== null) {
      throw new Problem(409, 'already_exists', `There is a ${kind} with this id already.`);
    }
    if (this.state.count(kind) >= MAX_RECORDS_PER_KIND) {
      throw new Problem(422, 'limit_reached', `There can be at most ${MAX_RECORDS_PER_KIND} of a kind.`);
    }
    const status = fields?.['status'];
    if (status !== undefined && status !== operation.to) {
      throw unfit(`A new ${kind} is ${operation.to}: leave status away, and change it by its operations.`);
    }
    const id = given ?? newId(NAMES[kind].idPrefix);
    const at = new Date().toISOString();
    const { idField, defaults } = NAMES[kind];
    const record = checked(kind, {
      [idField]: id,
      ...defaults,
      status: operation.to,
      createdAt: at,
      ...withoutId(kind, fields),
      updatedAt: at,
    });
    this.state.put(kind, record);
    return { kind, id, record, type: operation.event, described: record };
  }

  #change({ kind, op, id, fields = {} }: Mutation, operation: Operation): Change {
    if (id === undefined) throw unfit(`${op} needs the record's id.`);
    const before = this.state.get(kind, id);
    if (before === null) throw new Problem(404, 'not_found', `There is no ${kind} with this id.`);
    if (!isAllowed(operation, before.status)) {
      const from = operation.from?.join(', ');
      throw new Problem(
        409,
        'impossible_transition',
        `${op} is possible from ${from}; this ${kind} is ${String(before.status)}.`,
      );
    }
    if (operation.effect === 'delete') {
      this.state.delete(kind, id);
      return { kind, id, record: null, type: operation.event, described: before };
    }
    if (Object.hasOwn(fields, 'status')) {
      throw unfit('A status changes by its operation, not as a field.');
    }
    const record = checked(kind, {
      ...before,
      ...(operation.newVersion ? { version: nextVersion(String(before.version)) } : {}),
      ...withoutId(kind, fields),
      ...(operation.to === null ? {} : { status: operation.to }),
      updatedAt: new Date().toISOString(),
    });
    this.state.put(kind, record);
    return { kind, id, record, type: operation.event, described: record };
  }
}

/** Rejects fields that readers would take for the record's id. */
function withoutId(kind: Kind, fields: JsonObject = {}): JsonObject {
  for (const field of [NAMES[kind].idField, NAMES[kind].eventIdField]) {
    if (Object.hasOwn(fields, field)) {
      throw unfit(`${field} is given by the service, not as a field.`);
    }
  }
  return fields;
}

function checked(kind: Kind, record: JsonObject): JsonObject {
  const flaw = flawOf(kind, record);
  if (flaw !== null) throw unfit(`The ${NAMES[kind].name} ${flaw}`);
  return record;
}
