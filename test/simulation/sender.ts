import { type Kind, kindOfType } from '../../src/compliance/kinds.ts';
import type { JsonObject } from '../../src/compliance/pointers.ts';
import type { Version } from './model.ts';
import type { Message, Settings } from './plan.ts';
import type { World } from './time.ts';

/** What the mirror answers a delivery. `none`: no answer came, or one that says try again. */
export type Answer = 'acknowledged' | 'refused' | 'none';

export interface Sent {
  id: string;
  body: string;
  kind: Kind;
  recordId: string;
  rev: number;
  /** Whoever has the API asked for what stands in it can tell which record it is about, as long as that lives. */
  findable: boolean;
  /** Where the mirror looks first stands another thing's id. */
  isBeside: boolean;
}

/** How long an event waits for others that come in one delivery with it. In SETTLEs. */
const JOINED_IN_SETTLES = 0.5;
/** How long the sender waits between its attempts; then it gives up. In SETTLEs. */
const RETRIES_IN_SETTLES = [1, 4, 12];

const TYPES: Record<Kind, { born: string; changed: readonly string[]; gone: string | null; odd: string }> = {
  policy: {
    born: 'policy.created',
    changed: ['policy.updated', 'policy.approved', 'policy.updated'],
    gone: 'policy.deleted',
    odd: 'policy.archived',
  },
  risk_assessment: {
    born: 'risk.identified',
    changed: ['risk.assessed', 'risk.mitigated', 'risk.escalated'],
    gone: null,
    odd: 'risk.closed',
  },
  vendor: {
    born: 'vendor.added',
    changed: ['vendor.updated', 'vendor.assessed', 'vendor.updated'],
    gone: 'vendor.removed',
    odd: 'vendor.merged',
  },
};

export interface Sender {
  announce(kind: Kind, recordId: string, version: Version, last: JsonObject | null, message: Message): void;
  /** Attempts that are still to come. */
  outstanding(): number;
}

/** The service's write side: events of changes, sent late, twice or not at all, and again when nothing answers. */
export function createSender(options: {
  world: World;
  settings: Settings;
  /** Of one event, or of several in one body. */
  deliver: (sent: readonly Sent[], signedWall: number) => Promise<Answer>;
}): Sender {
  const { world, settings } = options;
  const joined: Sent[] = [];
  let count = 0;
  let lastId = '';
  let outstanding = 0;

  function attempt(sent: readonly Sent[], number: number): void {
    const again = () => {
      const wait = RETRIES_IN_SETTLES[number];
      if (wait !== undefined) later(sent, wait * settings.settleMs, number + 1);
    };
    outstanding += 1;
    void options.deliver(sent, world.trueWall()).then((answer) => {
      outstanding -= 1;
      if (answer !== 'acknowledged') again();
    });
  }

  function after(delayMs: number, then: () => void): void {
    outstanding += 1;
    world.at(world.now() + delayMs, null, () => {
      outstanding -= 1;
      then();
    });
  }

  const later = (sent: readonly Sent[], delayMs: number, number: number) =>
    after(delayMs, () => attempt(sent, number));

  function join(sent: Sent): void {
    joined.push(sent);
    if (joined.length === 1) after(JOINED_IN_SETTLES * settings.settleMs, () => attempt(joined.splice(0), 0));
  }

  return {
    announce(kind, recordId, version, last, message) {
      const type = typeOf(kind, version, message);
      if (type === null) return;
      count += 1;
      const id = message.reusesId && lastId !== '' ? lastId : `event-${count}`;
      lastId = id;
      const createdMs = world.trueWall() + settings.skewMs;
      const iso = new Date(
        settings.wholeSeconds ? Math.floor(createdMs / 1000) * 1000 : createdMs,
      ).toISOString();
      const created = settings.wholeSeconds ? iso.replace('.000Z', 'Z') : iso;
      const data = dataOf(kind, recordId, version.content ?? last ?? {}, message);
      const body =
        message.payload === 'broken'
          ? `{"type":"${type}","id":"${id}"`
          : JSON.stringify({ id, type, created, data });
      const isGuess = message.shape === AMBIGUOUS || message.shape === LIKELIER;
      const findable = !isGuess && message.payload !== 'unusable' && message.payload !== 'broken';
      const isBeside =
        kind === 'risk_assessment' && message.shape === BESIDE && message.payload !== 'unusable';
      const sent = { id, body, kind, recordId, rev: version.rev, findable, isBeside };
      const isJoined = message.joins && message.payload !== 'broken';
      for (const delay of message.copiesMs)
        if (isJoined) after(delay, () => join(sent));
        else later([sent], delay, 0);
    },
    outstanding: () => outstanding,
  };
}

function typeOf(kind: Kind, version: Version, message: Message): string | null {
  const types = TYPES[kind];
  if (version.content === null) return types.gone;
  if (message.type === 'odd') return types.odd;
  return version.rev === 0 ? types.born : types.changed[message.type]!;
}

const ID_FIELD: Record<Kind, string> = {
  policy: 'policyId',
  risk_assessment: 'riskAssessmentId',
  vendor: 'vendorId',
};

function dataOf(kind: Kind, id: string, content: JsonObject, message: Message): JsonObject {
  const { id: _, policyId: __, ...fields } = content;
  const shown =
    message.payload === 'thin' ? {} : message.payload === 'partial' ? { status: fields['status'] } : fields;
  if (message.payload === 'unusable') return { name: 'it does not say whose' };
  if (message.shape !== null) return SHAPES_OF_ID[message.shape]!(kind, id, shown);
  return { [ID_FIELD[kind]]: id, ...shown };
}

const NOUN: Record<Kind, string> = { policy: 'policy', risk_assessment: 'assessment', vendor: 'vendor' };
/** Of no record that ever was. */
const NOBODY = 4_711;
/** The shape in which something likelier than its own id is none. It may have been one, so the other is not taken. */
const LIKELIER = 2;
/** The shape that names a second record as likely as its own. */
const AMBIGUOUS = 3;
/** The shape that names another thing where the pointers look, and always the same one. */
const BESIDE = 4;

/** Where ids may stand that no pointer of `POINTERS` finds, or none finds first: as many as `SHAPES`. */
const SHAPES_OF_ID: readonly ((kind: Kind, id: string, shown: JsonObject) => JsonObject)[] = [
  (kind, id, shown) => ({ [`${NOUN[kind]}_id`]: id, ...shown }),
  (kind, id, shown) => ({ number: NOBODY, [NOUN[kind]]: { ref: id, code: `not ${id}` }, ...shown }),
  (_, id, shown) => ({ code: `not ${id}`, subject: { key: id }, ...shown }),
  (kind, id, shown) => ({ subject: { key: id }, relation: { key: otherThan(kind, id) }, ...shown }),
  (kind, id, shown) => ({
    ...(kind === 'risk_assessment' ? { id: 'v0' } : {}),
    number: NOBODY,
    [NOUN[kind]]: { ref: id },
    ...shown,
  }),
];

const otherThan = (kind: Kind, id: string) => (id === `${kind[0]}0` ? `${kind[0]}1` : `${kind[0]}0`);

/** The body of a delivery with all of them. */
export const bodyOf = (sent: readonly Sent[]): string =>
  sent.length === 1 ? sent[0]!.body : `{"events":[${sent.map(({ body }) => body).join(',')}]}`;

/** Whether a delivery was an event of its record's kind, readable or not. */
export function isEventOfItsKind(sent: Sent): boolean {
  try {
    return kindOfType((JSON.parse(sent.body) as { type: string }).type) === sent.kind;
  } catch {
    return false;
  }
}

/** Whether a delivery says of which record it speaks, in the way that the mirror can read. */
export function speaksOfItsRecord(sent: Sent): boolean {
  try {
    const { type, data } = JSON.parse(sent.body) as { type: string; data: JsonObject };
    return kindOfType(type) === sent.kind && data[ID_FIELD[sent.kind]] === sent.recordId;
  } catch {
    return false;
  }
}
