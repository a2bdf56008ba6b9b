import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { GivenOptions } from '../../sandbox/options.ts';
import { NAMES, recordId } from '../../sandbox/records.ts';
import { startSandbox } from '../../sandbox/sandbox.ts';
import { SIGNATURE_HEADER, signatureHeader } from '../../sandbox/send.ts';
import { KINDS, type Kind, kindOfType } from '../../src/compliance/kinds.ts';
import { isObject, type JsonObject } from '../../src/compliance/pointers.ts';
import { type Shapes, type ShapesPatch, shapesOf } from './shapes.ts';

/**
 * A compliance service of any shape that fits the specification: it stands before the product's sandbox, which has one, and puts
 * answers and deliveries into the other form. It shows no way to create records: they change below `sandboxUrl`.
 */
export async function startShapedUpstream(patch: ShapesPatch, options: GivenOptions = {}) {
  const shapes = shapesOf(patch);
  const sandbox = await startSandbox({ port: 0, ...options });
  const { state } = sandbox.parts.upstream;
  /** Where deliveries go on to, and what they are signed with; one each registration. */
  const receivers: { url: string; secret: string }[] = [];

  async function answer(request: IncomingMessage, body: string): Promise<[status: number, answer: unknown]> {
    const url = new URL(request.url ?? '', sandbox.url);
    const [, root, name, id] = url.pathname.split('/').map(decodeURIComponent);
    if (root === 'deliveries') return [await passOn(receivers[Number(name)]!, JSON.parse(body)), {}];
    const kind = KINDS.find((each) => NAMES[each].path === `/${name}`);
    const isRegistration = name === 'webhooks' && request.method === 'POST';
    const asked = isRegistration ? (JSON.parse(body) as { url: string }) : null;
    const kept = kind !== undefined && id !== undefined ? `/${encodeURIComponent(keptId(kind, id))}` : '';
    const inner = await fetch(`${sandbox.url}/${root}/${name}${kept}`, {
      method: request.method ?? 'GET',
      headers: {
        authorization: request.headers.authorization ?? '',
        ...(asked === null ? {} : { 'content-type': 'application/json' }),
      },
      body: asked && JSON.stringify({ ...asked, url: `${own}/deliveries/${receivers.length}` }),
    });
    const { data } = (await inner.json()) as { data?: JsonObject };
    if (!inner.ok || data === undefined) return [inner.status, { message: 'no' }];
    if (asked !== null) {
      receivers.push({ url: asked.url, secret: String(data['secret']) });
      return [inner.status, registrationAnswer({ ...data, url: asked.url }, shapes)];
    }
    if (kind === undefined) return [404, { message: 'no' }];
    if (kept !== '') return [200, recordAnswer(kind, shapedRecord(kind, data, 'read', shapes), shapes)];
    const page = pageOf(state.list(kind), Object.fromEntries(url.searchParams), shapes.paging);
    if (page === null) return [422, { message: 'no such page' }];
    const rows = page.rows.map((record) => shapedRecord(kind, record, 'rows', shapes));
    return [200, enveloped(kind, rows, shapes.envelope.list, page.meta, shapes)];
  }

  async function passOn(
    { url, secret }: { url: string; secret: string },
    event: { id: string; type: string; data: JsonObject },
  ): Promise<number> {
    const body = JSON.stringify({ ...event, data: eventData(event, shapes) });
    const signature = signatureHeader(secret, Math.floor(Date.now() / 1000), body);
    const answered = await fetch(url, { method: 'POST', body, headers: { [SIGNATURE_HEADER]: signature } });
    await answered.body?.cancel();
    return answered.status;
  }

  const keptId = (kind: Kind, text: string) =>
    shapes.ids[kind].numbers && /^[1-9]\d{0,15}$/.test(text) ? idOfNumber(kind, Number(text)) : text;

  const server = createServer({ keepAliveTimeout: 0 }, async (request, response: ServerResponse) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const [status, body] = await answer(request, Buffer.concat(chunks).toString()).catch(
      (error: unknown) => [502, { message: String(error) }] as const,
    );
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const own = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    baseUrl: `${own}/v1`,
    /** Of the sandbox behind it, whose controls know its own ids. */
    sandboxUrl: sandbox.url,
    shapes,
    /** Current records by the ids that readers see. */
    held: (kind: Kind): Map<string, JsonObject> =>
      new Map(
        state.list(kind).map((record) => [String(shownId(kind, recordId(kind, record), shapes)), record]),
      ),
    async close() {
      await sandbox.close();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

const idOfNumber = (kind: Kind, number: number) => NAMES[kind].idPrefix + String(number).padStart(4, '0');

/** A record's id as the API and events write it. */
function shownId(kind: Kind, id: string, { ids }: Shapes): string | number {
  const number = Number(id.slice(NAMES[kind].idPrefix.length));
  return ids[kind].numbers && idOfNumber(kind, number) === id ? number : id;
}

/** `document` with `value` at `place`. Objects on the way to it are kept or made. Anything else on the way is replaced. */
function withAt(document: JsonObject, place: string, value: unknown): JsonObject {
  const [step = '', ...rest] = place.split('.');
  if (rest.length === 0) return { ...document, [step]: value };
  const inner = document[step];
  return { ...document, [step]: withAt(isObject(inner) ? inner : {}, rest.join('.'), value) };
}

/** The field in which records of other kinds name an assessment. */
const REFERENCE = 'riskAssessmentId';

/** A record as it is in lists (`rows`), in the answers of GET by id (`read`), or in an event's data. */
function shapedRecord(
  kind: Kind,
  record: JsonObject,
  where: 'rows' | 'read' | 'events',
  shapes: Shapes,
): JsonObject {
  const { [NAMES[kind].idField]: _, [NAMES[kind].eventIdField]: __, ...fields } = record;
  const { [REFERENCE]: reference, status } = fields;
  if (typeof reference === 'string') fields[REFERENCE] = shownId('risk_assessment', reference, shapes);
  if (typeof status === 'string') fields['status'] = shownStatus(status, shapes.statuses);
  const { inside, [where]: place } = shapes.ids[kind];
  if (place === null) return fields;
  const id = shownId(kind, recordId(kind, record), shapes);
  const above = place.includes('.') ? place.slice(0, place.lastIndexOf('.')) : null;
  // The id is set first, where services write it, and again at the end, because a field of the record may have the same name.
  const document =
    inside && above !== null ? withAt({}, above, fields) : { ...withAt({}, place, id), ...fields };
  return withAt(document, place, id);
}

function shownStatus(status: string, words: Shapes['statuses']): string {
  if (words === 'upper') return status.toUpperCase();
  if (words === 'title') return (status.charAt(0).toUpperCase() + status.slice(1)).replaceAll('_', ' ');
  return status;
}

function eventData({ id, type, data }: { id: string; type: string; data: JsonObject }, shapes: Shapes) {
  const kind = kindOfType(type)!;
  const { idField, eventIdField } = NAMES[kind];
  const shaped = shapedRecord(kind, { ...data, [idField]: data[eventIdField] }, 'events', shapes);
  const { otherId } = shapes.ids[kind];
  return otherId === null ? shaped : withAt(shaped, otherId, `about-${id}`);
}

const WORDS = {
  policy: ['policy', 'policies'],
  risk_assessment: ['riskAssessment', 'riskAssessments'],
  vendor: ['vendor', 'vendors'],
} as const;

function enveloped(kind: Kind, content: unknown, pattern: string, meta: JsonObject, { envelope }: Shapes) {
  const place = pattern.replace('{kind}', WORDS[kind][0]).replace('{kinds}', WORDS[kind][1]);
  if (place === '') return content;
  const answer = withAt({}, place, content);
  return envelope.meta === null ? answer : withAt(answer, envelope.meta, meta);
}

function recordAnswer(kind: Kind, record: JsonObject, shapes: Shapes): unknown {
  const { record: place, recordInArray } = shapes.envelope;
  const meta = { page: 1, perPage: 1, total: 1 };
  return enveloped(kind, recordInArray ? [record] : record, place, meta, shapes);
}

function registrationAnswer({ id, secret, ...rest }: JsonObject, { registration }: Shapes): JsonObject {
  let answer: JsonObject = { data: rest };
  if (registration.id !== null) answer = withAt(answer, registration.id, id);
  return registration.secret === null ? answer : withAt(answer, registration.secret, secret);
}

/** The rows and the `meta` of the page that is asked for; null: there is no such page. */
function pageOf<Row>(
  records: readonly Row[],
  query: Readonly<Record<string, string>>,
  { by, startName, sizeName, firstPage, size: usual, maxSize }: Shapes['paging'],
): { rows: readonly Row[]; meta: JsonObject } | null {
  const total = records.length;
  if (by === 'nothing') return { rows: records, meta: { page: firstPage, perPage: total, total } };
  const size = Math.min(Number(query[sizeName] ?? usual), maxSize);
  const asked = Number(query[startName] ?? (by === 'page' ? firstPage : 0));
  const start = by === 'page' ? (asked - firstPage) * size : asked;
  if (!(size >= 1 && start >= 0)) return null;
  const meta = { page: Math.floor(start / size) + firstPage, perPage: size, total };
  const nextCursor = start + size < total ? String(start + size) : null;
  return {
    rows: records.slice(start, start + size),
    meta: by === 'cursor' ? { ...meta, nextCursor } : meta,
  };
}
