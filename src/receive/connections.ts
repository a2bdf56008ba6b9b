import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { networkOf } from '../platform/addresses.ts';
import { type Begin, createTurns } from './turns.ts';

/** Fewer are not worth looking through. */
const FEWEST_LOOKED_THROUGH = 64;

/**
 * A third of all: an address by itself shuts nobody out, and a sender with many machines behind one has more than it uses.
 * A trusted proxy's own connections have no such limit.
 */
export const MAX_CONNECTIONS_PER_ADDRESS = 300;

/**
 * Requests that one connection may send before the first of them is answered. No sender of webhooks does it at all; twenty
 * thousand small ones in one piece of 0.9 MB kept everybody else waiting for seconds.
 */
const MOST_AHEAD = 32;

/**
 * What fits into the 64 KiB that are read of a connection at once: 1,500 requests, or 10,900 chunks of a byte. Node parses
 * a piece to its end before anything else has its turn, and the pieces of all connections one after the other: of six hundred
 * that kept everybody else waiting for half a minute. So of requests sent ahead and of chunks, all connections together
 * have so many in one turn of the event loop; over it, whoever sends more than the few that anybody may is closed.
 */
const AHEAD_A_TURN = 64;
const CHUNKS_A_TURN = 2_048;
const CHUNKS_FOR_ANYBODY = 8;

/** What is read in one turn and is more costs more than to accept a connection: 700 chunks of a byte. */
const DEAR_BYTES = 4_096;

export interface ConnectionLimits {
  maxConnections: number;
  maxConnectionsPerAddress: number;
  keepAliveTimeoutMs: number;
  strangerKeepAliveMs: number;
}

export interface Connections {
  /** Remembers a new one. Where there are as many as may be, another is closed for it, or else itself. */
  add(socket: Socket): void;
  /** A request has come on one. False: too many before it are not answered yet, and the connection is closed. */
  used(request: IncomingMessage, response: ServerResponse): boolean;
  /** Closes those of strangers that have been idle for too long: to be called every few seconds. */
  closeIdle(): void;
  open(): Socket[];
  /** How many are remembered, with those that have closed since they were last looked for. */
  remembered(): number;
}

/** What we know of a connection. Hangs on its socket, so that nothing need be looked up for a request. */
interface Connection {
  /** Null: a proxy's, which speaks for many. */
  network: string | null;
  /** When its last request came, or it itself. Milliseconds of `performance.now`. */
  usedAt: number;
  /** Requests in a row that came before the one before them was answered. */
  ahead: number;
  wasUsed: boolean;
  isProven: boolean;
  /** `holdStrangers` and `readLater` of its listener. */
  holdOthers: () => void;
  readLater: (socket: Socket, goOn: Begin) => void;
  /** What had come over it when it was last looked at. */
  bytesSeen: number;
  provenKeepAliveMs: number;
}

const CONNECTION = Symbol('connection');
/** `parser`: Node's own, without a public way to it. Its class names the place of what it calls for each piece of a body. */
type Parser = { onIncoming: () => number; constructor: { kOnBody?: number }; [place: number]: unknown };
type KnownSocket = Socket & { [CONNECTION]?: Connection; parser?: Parser | null };

/** Of Node's parser: the next headers end it. */
const parseNoMore = () => -1;

/**
 * Nothing of what came in the same piece and is not parsed yet reaches anybody: of up to 10,900 chunks each costs a buffer and
 * a call, whatever is done with it. Does nothing between pieces.
 */
export function dropPiece(socket: KnownSocket | null): void {
  const parser = socket?.parser;
  const place = parser?.constructor.kOnBody;
  if (parser == null || place === undefined || parser[place] === null) return;
  const onBody = parser[place];
  parser[place] = null;
  // For this piece only: Node uses its parsers again, once their connections are closed.
  setImmediate(() => {
    parser[place] = onBody;
  });
  socket?.[CONNECTION]?.holdOthers();
}

/** Calls `goOn` when it is this connection's turn to be read, at once where it is none of ours; false: no more is wanted. */
export function readInTurn(socket: KnownSocket | undefined, goOn: Begin): void {
  const connection = socket?.[CONNECTION];
  if (connection === undefined) goOn();
  else connection.readLater(socket!, goOn);
}

/** Ends a connection, and with it the work on what came in the same piece and is not parsed yet. */
function endAtOnce(socket: KnownSocket): void {
  if (socket.parser != null) socket.parser.onIncoming = parseNoMore;
  dropPiece(socket);
  socket.destroy();
}

/** So many in one turn of the event loop. */
function createTurnBudget(perTurn: number) {
  let spent = 0;
  let turn = 0;
  const next = () => {
    spent = 0;
    turn += 1;
  };
  return {
    /** False: they are used up. */
    spend(): boolean {
      if (spent === 0) setImmediate(next);
      spent += 1;
      return spent <= perTurn;
    },
    turn: () => turn,
  };
}

/** Node's own, without a public way to it: what its `Keep-Alive` header says. */
type TimedResponse = ServerResponse & { _keepAliveTimeout?: number };

/** Who sent this request knows a secret of ours: from now on its connection is worth keeping. */
export function prove(request: { socket?: object }): void {
  const socket = request.socket as KnownSocket | undefined;
  const connection = socket?.[CONNECTION];
  if (connection === undefined || connection.isProven) return;
  connection.isProven = true;
  const response: TimedResponse | undefined = currentResponse(socket!);
  if (response !== undefined) response._keepAliveTimeout = connection.provenKeepAliveMs;
}

/** The response that Node is preparing on a connection: it is busy. There is no public way to it. */
export function currentResponse(socket: Socket): ServerResponse | undefined {
  return (socket as Socket & { _httpMessage?: ServerResponse | null })._httpMessage ?? undefined;
}

/**
 * Requests in progress that one address may have through proxies that are trusted, whose connections have no share: as many
 * as it could have by itself. `enter` false: it has its share.
 */
export function createShares(limit = MAX_CONNECTIONS_PER_ADDRESS) {
  const inside = new Map<string, number>();
  return {
    enter(network: string): boolean {
      const count = inside.get(network) ?? 0;
      if (count >= limit) return false;
      inside.set(network, count + 1);
      return true;
    },
    leave(network: string): void {
      const count = inside.get(network)! - 1;
      if (count === 0) inside.delete(network);
      else inside.set(network, count);
    },
  };
}

/**
 * The sockets that are open. Refused: a listener for the end of each. With one, whatever a request leaves behind hung on
 * that of the request before until the next full collection: 4 KB a request, and a quarter of what answering one cost.
 * So those that have closed are looked for, once there are twice as many as were open the last time, or as may be.
 */
export function createConnections(
  limits: ConnectionLimits,
  isProxy: (address: string | undefined) => boolean,
): Connections {
  const sockets = new Set<KnownSocket>();
  let lookAt = FEWEST_LOOKED_THROUGH;
  const requestsAhead = createTurnBudget(AHEAD_A_TURN);
  const chunks = createTurnBudget(CHUNKS_A_TURN);
  const readings = createTurns(1);
  /** Whose turn came last: it is not held back again before it was read. */
  let inTurn: KnownSocket | null = null;
  let bytesBeforeTurn = 0;
  /** Whether the one before it brought much. */
  let wasDear = false;
  const fewestInTheWay = Math.min(limits.maxConnections, limits.maxConnectionsPerAddress);

  function forgetClosed(): void {
    for (const each of sockets) if (each.closed) sockets.delete(each);
    lookAt = Math.max(FEWEST_LOOKED_THROUGH, 2 * sockets.size);
  }

  function makeRoom(newcomer: KnownSocket, network: string | null): void {
    if (sockets.size <= fewestInTheWay) return;
    let all = 0;
    let own = 0;
    let worst: KnownSocket | null = null;
    let ownWorst: KnownSocket | null = null;
    for (const each of sockets) {
      const connection = each[CONNECTION]!;
      if (each.destroyed) continue;
      all += 1;
      const isOwn = network !== null && connection.network === network;
      if (isOwn) own += 1;
      if (each === newcomer) continue;
      if (isWorse(each, worst)) worst = each;
      if (isOwn && isWorse(each, ownWorst)) ownWorst = each;
    }
    if (own > limits.maxConnectionsPerAddress) (ownWorst ?? newcomer).destroy();
    else if (all > limits.maxConnections) (worst ?? newcomer).destroy();
  }

  function isDear(): boolean {
    return inTurn !== null && inTurn.bytesRead - bytesBeforeTurn > DEAR_BYTES;
  }

  /** Each network has its turn. */
  function readLater(socket: KnownSocket, goOn: Begin): void {
    readings.begin(socket[CONNECTION]!.network ?? '', () => {
      if (socket.destroyed) return false;
      if (goOn() === false) return false;
      wasDear = isDear();
      inTurn = socket;
      bytesBeforeTurn = socket.bytesRead;
      return true;
    });
  }

  /** Reads no more of it until its turn comes. */
  function hold(socket: KnownSocket): void {
    socket.pause();
    readLater(socket, () => socket.resume());
  }

  /** A piece costs up to two milliseconds even if it is dropped, and as many as there are connections may come at once. */
  function holdStrangers(): void {
    for (const socket of sockets) {
      if (socket === inTurn) continue;
      // Whoever has stopped reading goes on by itself, or never. And Node does both where a request is being answered.
      if (socket[CONNECTION]!.isProven || socket.isPaused() || socket.destroyed) continue;
      if (currentResponse(socket) === undefined) hold(socket);
    }
  }

  /** Counts the chunks of a body as they are parsed, which is before anybody reads them. */
  function boundChunks(request: IncomingMessage): void {
    const push = request.push;
    let own = 0;
    let turn = -1;
    request.push = (chunk, encoding) => {
      if (chunk !== null) {
        const hasLeft = chunks.spend();
        own = turn === chunks.turn() ? own + 1 : 1;
        turn = chunks.turn();
        if (!hasLeft && own > CHUNKS_FOR_ANYBODY) {
          request.push = () => true;
          endAtOnce(request.socket);
          return true;
        }
      }
      return push.call(request, chunk, encoding);
    };
  }

  return {
    add(socket: KnownSocket) {
      const { remoteAddress } = socket;
      const network = remoteAddress === undefined || isProxy(remoteAddress) ? null : networkOf(remoteAddress);
      socket[CONNECTION] = {
        ...{ network, usedAt: performance.now(), ahead: 0, wasUsed: false, bytesSeen: 0 },
        ...{ isProven: false, holdOthers: holdStrangers, readLater },
        provenKeepAliveMs: limits.keepAliveTimeoutMs,
      };
      sockets.add(socket);
      if (sockets.size >= lookAt || sockets.size > limits.maxConnections) forgetClosed();
      makeRoom(socket, network);
      readings.accepted(network ?? '', wasDear || isDear());
      // Not at once: Node has put off its own beginning to read until then.
      process.nextTick(hold, socket);
    },

    used(request, response: TimedResponse) {
      const connection = (request.socket as KnownSocket)[CONNECTION]!;
      connection.usedAt = performance.now();
      connection.wasUsed = true;
      if (!connection.isProven) response._keepAliveTimeout = limits.strangerKeepAliveMs;
      // Another response has the socket: this request came before that one was answered.
      connection.ahead = currentResponse(request.socket) === response ? 0 : connection.ahead + 1;
      if (connection.ahead > MOST_AHEAD || (connection.ahead > 0 && !requestsAhead.spend())) {
        endAtOnce(request.socket);
        return false;
      }
      if (request.headers['transfer-encoding'] !== undefined) boundChunks(request);
      return true;
    },

    closeIdle() {
      const before = performance.now() - limits.strangerKeepAliveMs;
      for (const socket of sockets) {
        const connection = socket[CONNECTION]!;
        const { bytesRead } = socket;
        // A request that is on its way has its own time-outs, and so has a connection that never brought one.
        const isStill = connection.bytesSeen === bytesRead;
        connection.bytesSeen = bytesRead;
        if (connection.isProven || !connection.wasUsed || !isStill || connection.usedAt > before) continue;
        if (currentResponse(socket) === undefined) socket.destroy();
      }
    },

    open: () => [...sockets].filter((socket) => !socket.closed),
    remembered: () => sockets.size,
  };
}

/**
 * Which of two connections is the one to close: a stranger's idle one, then a stranger's busy one, then an idle one that has
 * proven itself; of alike ones that whose last request, or it itself, came first. A proven one that is busy: never. A
 * stranger's busy one before the sender's idle one, because what strangers do should not cost the sender its connections;
 * and a delivery that is the first of its connection takes milliseconds, and counts as proven once its signature is right.
 */
function isWorse(socket: KnownSocket, than: KnownSocket | null): boolean {
  const rank = rankOf(socket);
  if (rank === KEPT) return false;
  const other = than === null ? KEPT : rankOf(than);
  return rank < other || (rank === other && socket[CONNECTION]!.usedAt < than![CONNECTION]!.usedAt);
}

const KEPT = 3;

function rankOf(socket: KnownSocket): number {
  const isBusy = currentResponse(socket) !== undefined;
  if (!socket[CONNECTION]!.isProven) return isBusy ? 1 : 0;
  return isBusy ? KEPT : 2;
}
