import { randomInt } from 'node:crypto';
import { Hono } from 'hono';
import { z } from 'zod';
import { EVENT_TYPES, KINDS, type Kind } from '../src/compliance/kinds.ts';
import { requireOwnOrigin } from './access.ts';
import { faultsPatchSchema, faultsSchema } from './faults.ts';
import { trigger } from './lively.ts';
import { bodyOf, FAULT_FIELDS, jsonIn, TIME_FIELDS } from './page/forms.tsx';
import { merged } from './places.ts';
import { parseOrRefuse, readJson, unfit } from './problems.ts';
import { type Random, seededRandom } from './random.ts';
import { recordId } from './records.ts';
import type { Registrations } from './registrations.ts';
import { type Scenarios, scenarioSchema } from './scenarios.ts';
import { changedShapes, drawShapes, shapesPatchSchema } from './shapes.ts';
import { shownId, withShownIds } from './shaping.ts';
import { type ScaledTimers, timeScaleSchema } from './time.ts';
import type { Settings, Upstream } from './upstream.ts';

/** What the controls act on, and what the page shows. */
export interface SandboxParts {
  upstream: Upstream;
  registrations: Registrations;
  settings: Settings;
  /** The settings at the start, for a reset. */
  atStart: Readonly<Settings>;
  scenarios: Scenarios;
  timers: ScaledTimers;
  seedNumber: number;
  random: Random;
}

type Form = Readonly<Record<string, string>>;

interface Control {
  /** The path below `/_sandbox`, and the `action` that a form of the page sends. */
  path: string;
  /** The request that the fields of a form mean; undefined: no form may call this control. */
  form: ((fields: Form) => unknown) | undefined;
  run(parts: SandboxParts, body: unknown): Promise<unknown>;
}

/** One row of the table. If `act` returns nothing, the answer is the view of the path's first word. */
function control<Schema extends z.ZodType>(
  path: string,
  row: {
    schema: Schema;
    act(parts: SandboxParts, body: z.infer<Schema>): unknown;
    form?: (fields: Form) => unknown;
  },
): Control {
  return {
    path,
    form: row.form,
    run: async (parts, body) => {
      const answer = await row.act(parts, parseOrRefuse(row.schema, body));
      return answer ?? VIEWS[path.split('/')[0]!]?.(parts);
    },
  };
}

const VIEWS: Readonly<Record<string, (parts: SandboxParts) => unknown>> = {
  state: stateView,
  faults: ({ settings }) => settings.faults,
  shapes: ({ settings }) => settings.shapes,
  time: ({ timers }) => ({ scale: timers.scale }),
};

const DEFAULT_QUIESCE_TIMEOUT_MS = 30_000;
const MAX_QUIESCE_TIMEOUT_MS = 600_000;
/** Numbers that are chosen for a draw are below this. */
const MAX_DRAW = 1_000_000;

const record = { id: z.string().optional(), fields: z.record(z.string(), z.unknown()).optional() };

/** A request below `/_sandbox` can call each, and the page those with a `form`. */
const CONTROLS: readonly Control[] = [
  control('mutate', {
    // `silent`: the record changes without an event.
    schema: z.strictObject({
      kind: z.enum(KINDS),
      op: z.string(),
      ...record,
      silent: z.boolean().default(false),
    }),
    form({ kind, op, id, name, fields, silent }) {
      const further = jsonIn(fields, 'Further fields', '{"owner": "Legal"}');
      return { kind, op, id, silent: silent !== undefined, fields: name ? { ...further, name } : further };
    },
    act({ upstream, settings: { shapes } }, { silent, ...mutation }) {
      const { kind, id } = mutation;
      const kept = id === undefined ? id : upstream.idShownAs(kind, id);
      const change = upstream.apply({ ...mutation, id: kept });
      const announced = silent ? null : upstream.announce(change);
      return {
        kind,
        id: String(shownId(kind, change.id, shapes)),
        record: change.record === null ? null : withShownIds(kind, change.record, shapes),
        event: announced?.event ?? null,
      };
    },
  }),
  control('trigger', {
    schema: z.strictObject({ type: z.enum(EVENT_TYPES), ...record }),
    act({ upstream, registrations, settings, random }, request) {
      return {
        events: trigger(upstream, random, request).map(({ event, kind, recordId: id }) => ({
          id: event.id,
          type: event.type,
          kind,
          record_id: String(shownId(kind, id, settings.shapes)),
        })),
        registrations: registrations.list().length,
      };
    },
  }),
  control('scenario', {
    schema: scenarioSchema,
    form: ({ name }) => ({ name }),
    act: ({ scenarios }, request) => scenarios.run(request),
  }),
  control('quiesce', {
    schema: z.strictObject({
      timeoutMs: z.int().min(0).max(MAX_QUIESCE_TIMEOUT_MS).default(DEFAULT_QUIESCE_TIMEOUT_MS),
    }),
    async act({ scenarios, upstream: { deliveries } }, { timeoutMs }) {
      await scenarios.stop();
      const quiet = await deliveries.whenQuiet(timeoutMs);
      return { quiet, ...deliveries.open };
    },
  }),
  control('faults', {
    schema: faultsPatchSchema,
    form: (fields) => bodyOf(Object.values(FAULT_FIELDS).flat(), fields),
    act({ settings }, patch) {
      settings.faults = parseOrRefuse(faultsSchema, merged(settings.faults, patch));
    },
  }),
  control('shapes', {
    schema: shapesPatchSchema,
    form: ({ shapes }) => jsonIn(shapes, 'Shapes', '{"statuses": "upper"}'),
    act({ settings }, patch) {
      settings.shapes = changedShapes(settings.shapes, patch);
    },
  }),
  control('shapes/reset', {
    schema: z.strictObject({}),
    form: () => ({}),
    act({ settings, atStart }) {
      settings.shapes = atStart.shapes;
    },
  }),
  control('shapes/draw', {
    // The same seed draws the same shapes.
    schema: z.strictObject({
      seed: z
        .int()
        .min(0)
        .default(() => randomInt(MAX_DRAW)),
    }),
    form: () => ({}),
    act({ settings, atStart }, { seed }) {
      settings.shapes = changedShapes(atStart.shapes, drawShapes(seededRandom(seed)));
    },
  }),
  control('time', {
    schema: z.strictObject({ scale: timeScaleSchema }),
    form: (fields) => bodyOf(TIME_FIELDS, fields),
    act({ timers }, { scale }) {
      timers.scale = scale;
    },
  }),
];

/** Does what a form of the page asks for. @throws Problem that says why it is not possible. */
export async function actOnForm(parts: SandboxParts, form: Form): Promise<void> {
  const wanted = CONTROLS.find(({ path }) => path === form['action']);
  if (wanted?.form === undefined) throw unfit('action: none that a form can ask for.');
  await wanted.run(parts, wanted.form(form));
}

/** The routes below `/_sandbox`, for tests and demonstrations. They are not part of the specification. */
export function controlRoutes(parts: SandboxParts): Hono {
  const routes = new Hono();
  // Without a token, any web page in a browser of this machine could send these requests.
  routes.use(requireOwnOrigin);
  for (const [name, view] of Object.entries(VIEWS)) routes.get(`/${name}`, (c) => c.json(view(parts)));
  for (const { path, run } of CONTROLS) {
    const methods = Object.hasOwn(VIEWS, path) ? ['POST', 'PATCH'] : ['POST'];
    routes.on(methods, `/${path}`, async (c) => c.json(await run(parts, await readJson(c))));
  }
  routes.get('/deliveries', (c) => c.json(deliveriesView(parts, c.req.query())));
  return routes;
}

function stateView(parts: SandboxParts) {
  const { upstream, registrations, settings, scenarios, timers, seedNumber } = parts;
  const { state, deliveries } = upstream;
  // Shapes do not apply here, except that ids are as readers see them.
  const records = (kind: Kind) => state.list(kind).map((one) => withShownIds(kind, one, settings.shapes));
  return {
    policies: records('policy'),
    riskAssessments: records('risk_assessment'),
    vendors: records('vendor'),
    // Assessments without a delivered event: a mirror can know one only if another record names it.
    unannouncedRiskAssessments: state
      .list('risk_assessment')
      .map((one) => recordId('risk_assessment', one))
      .filter((id) => !deliveries.announced.has(`risk_assessment/${id}`))
      .map((id) => String(shownId('risk_assessment', id, settings.shapes))),
    registrations: registrations.list(),
    deliveries: deliveries.open,
    faults: settings.faults,
    shapes: settings.shapes,
    scenario: scenarios.status,
    timeScale: timers.scale,
    seedNumber,
  };
}

const deliveriesQuerySchema = z.strictObject({
  outcome: z.string().optional(),
  eventId: z.string().optional(),
  recordId: z.string().optional(),
});

function deliveriesView({ upstream, settings }: SandboxParts, query: Record<string, string>) {
  const wanted = parseOrRefuse(deliveriesQuerySchema, query);
  const data = upstream.deliveries
    .list()
    .map((each) => ({ ...each, recordId: String(shownId(each.kind, each.recordId, settings.shapes)) }))
    .filter((each) =>
      Object.entries(wanted).every(([field, value]) => each[field as keyof typeof wanted] === value),
    );
  return { data, meta: { total: data.length } };
}
