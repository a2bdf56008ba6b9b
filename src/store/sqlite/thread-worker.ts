import { parentPort, receiveMessageOnPort } from 'node:worker_threads';
import { StoreUnavailable } from '../../platform/errors.ts';
import type { GapChange, Store } from '../store.ts';
import { openMigrated, openSqlite } from './sqlite.ts';
import { type Answer, type Asked, type Call, crossing, crossingVerbs, type Done } from './thread-messages.ts';
import { classOf, createLine, type ThreadVerb } from './thread-turns.ts';

/** Runs in a thread that `thread.ts` starts: the one that writes to the file, or the one for reports. */
if (parentPort === null) throw new Error('this runs in a thread of the service only');
const port = parentPort;

type Verbs = Record<string, (...args: unknown[]) => Promise<unknown>>;

let run = async (_call: Call): Promise<unknown> => {
  throw new StoreUnavailable('the database is not open');
};
let close: (() => Promise<void>) | null = null;
let isWorking = false;
let isClosing = false;
const line = createLine<Call>();
/** Gaps that the running verb has opened or resolved. */
let gaps: GapChange[] = [];

const tell = (answer: Answer) => port.postMessage(answer);

port.on('message', (asked: Asked) => {
  take(asked);
  if (!isWorking) void work();
});

function take(asked: Asked): void {
  if (asked.what === 'open') void open(asked);
  else if (asked.what === 'close') isClosing = true;
  else line.add(classOf(asked.verb), asked);
}

async function open({ path, isReader }: Extract<Asked, { what: 'open' }>): Promise<void> {
  try {
    // The reader finds the schema migrated: the writing thread has opened the file before.
    const store = isReader ? await openSqlite({ path, readOnly: true }) : await writing(path);
    const verbs = { ...store, ...crossingVerbs(store) } as unknown as Verbs;
    // Async, so that whatever is wrong with a call is its own answer, and does not end the thread.
    run = async ({ verb, args }) => await verbs[verb]!(...args);
    close = store.close;
    store.watchGaps((change) => gaps.push(change));
    tell({ what: 'opened', verbs: Object.keys(verbs) as ThreadVerb[], gaps: noted() });
  } catch (error) {
    tell({ what: 'not opened', error: crossing(error) });
  }
}

const writing = (path: string): Promise<Store> =>
  openMigrated(path, {
    onMigrating: () => tell({ what: 'migrating' }),
    onBackup: (to) => tell({ what: 'backed up', to }),
  });

/** One verb at a time. Messages that arrived meanwhile are taken in before the next verb is chosen. */
async function work(): Promise<void> {
  isWorking = true;
  for (let call = line.next(); call !== undefined; call = line.next()) {
    await answer(call);
    for (let more = receiveMessageOnPort(port); more !== undefined; more = receiveMessageOnPort(port)) {
      take(more.message as Asked);
    }
  }
  isWorking = false;
  if (!isClosing) return;
  await close?.();
  // This ends the thread.
  port.close();
}

async function answer(call: Call): Promise<void> {
  const result = await run(call).then(
    (value) => ({ value }),
    (error: unknown) => ({ error: crossing(error) }),
  );
  const done: Done = { what: 'done', id: call.id, ...result };
  const changes = noted();
  tell(changes.length === 0 ? done : { ...done, gaps: changes });
}

function noted(): GapChange[] {
  const changes = gaps;
  if (changes.length > 0) gaps = [];
  return changes;
}
