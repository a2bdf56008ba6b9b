import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { networkOf } from '../platform/addresses.ts';
import { type Begin, createTurns } from './turns.ts';

/** With fewer sockets than this, closed ones are not searched for. */
const FEWEST_LOOKED_THROUGH = 64;

/**
 * A third of all connections, so that one address cannot shut others out, and a sender with many machines behind one address
 * has enough. Connections of a trusted proxy have no such limit.
 */
export const MAX_CONNECTIONS_PER_ADDRESS = 300;

/**
 * Requests that one connection may send before the first is answered. Webhook senders do not pipeline. Twenty thousand small
 * requests in one write of 0.9 MB blocked everybody else for seconds.
 */
const MOST_AHEAD = 32;

/**
 * One read of 64 KiB can hold 1,500 requests or 10,900 one-byte chunks. Node parses it to its end before anything else runs, and
 * parses the reads of all connections one after the other: six hundred reads blocked everybody else for half a minute. So these
 * are the most pipelined requests and chunks of all connections in one turn of the event loop. Above that, a connection with a
 * pipelined request, or with more than CHUNKS_FOR_ANYBODY chunks, is closed.
 */
const AHEAD_A_TURN = 64;
const CHUNKS_A_TURN = 2_048;
const CHUNKS_FOR_ANYBODY = 8;

/** Reading more than this (700 one-byte chunks) costs more than accepting a connection. */
const COSTLY_BYTES = 4_096;

export interface ConnectionLimits {
  maxConnections: number;
  maxConnectionsPerAddress: number;
  keepAliveTimeoutMs: number;
  strangerKeepAliveMs: number;
}

export type Connections = ReturnType<typeof createConnections>;

/** The state of a connection. It is a property of the socket, so a request needs no lookup. */
interface Connection {
  /** Null: a trusted proxy's. */
  network: string | null;
  /** When its last request came, or it was opened. Milliseconds of `performance.now`. */
  usedAt: number;
  /** Pipelined requests in a row. */
  ahead: number;
  wasUsed: boolean;
  isProven: boolean;
  /** `holdStrangers` and `readLater` of its listener. */
  holdOthers: () => void;
  readLater: (socket: Socket, goOn: Begin) => void;
  /** Bytes received when it was last checked. */
  bytesSeen: number;
  provenKeepAliveMs: number;
}

const CONNECTION = Symbol('connection');
/** `parser` is Node's own and not public. `kOnBody` is the place of its callback for each piece of a body. */
type Parser = { onIncoming: () => number; constructor: { kOnBody?: number }; [place: number]: unknown };
type KnownSocket = Socket & { [CONNECTION]?: Connection; parser?: Parser | null };

/** As `onIncoming` of Node's parser it ends the parsing at the next headers. */
const parseNoMore = () => -1;

/**
 * Drops the part of the present read that is not parsed yet: each of up to 10,900 chunks would cost a buffer and a call. Between
 * reads it does nothing.
 */
export function dropPiece(socket: KnownSocket | null): void {
  const parser = socket?.parser;
  const place = parser?.constructor.kOnBody;
  if (parser == null || place === undefined || parser[place] === null) return;
  const onBody = parser[place];
  parser[place] = null;
  // Only for this read: Node reuses its parsers for other connections.
  setImmediate(() => {
    parser[place] = onBody;
  });
  socket?.[CONNECTION]?.holdOthers();
}

/** Calls `goOn` when it is this connection's turn to be read; at once for a socket that is not ours. */
export function readInTurn(socket: KnownSocket | undefined, goOn: Begin): void {
  const connection = socket?.[CONNECTION];
  if (connection === undefined) goOn();
  else connection.readLater(socket!, goOn);
}

/** Ends a connection and the parsing of what has arrived on it. */
function endAtOnce(socket: KnownSocket): void {
  if (socket.parser != null) socket.parser.onIncoming = parseNoMore;
  dropPiece(socket);
  socket.destroy();
}

/** Counts up to `perTurn` in each turn of the event loop. */
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

/** Not public in Node: the value of the `Keep-Alive` header. */
type TimedResponse = ServerResponse & { _keepAliveTimeout?: number };

/** The sender of this request knows a signing secret: its connection is kept from now on, and the answer says so. */
export function prove(request: { socket?: object }): void {
  const socket = request.socket as KnownSocket;
  const connection = socket[CONNECTION]!;
  connection.isProven = true;
  const response: TimedResponse | undefined = currentResponse(socket);
  if (response !== undefined) response._keepAliveTimeout = connection.provenKeepAliveMs;
}

/** The response that Node is preparing on a connection, if it is busy. Not public in Node. */
export function currentResponse(socket: Socket): ServerResponse | undefined {
  return (socket as Socket & { _httpMessage?: ServerResponse | null })._httpMessage ?? undefined;
}

/**
 * Limits the requests in progress of one client address behind trusted proxies, to the number of connections that it could have
 * without a proxy. `enter` returns false at the limit.
 */
export function createShares() {
  const inside = new Map<string, number>();
  return {
    enter(network: string): boolean {
      const count = inside.get(network) ?? 0;
      if (count >= MAX_CONNECTIONS_PER_ADDRESS) return false;
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
 * The open sockets. Refused: a listener for the end of each. It kept the objects of each request alive until the next full
 * garbage collection: 4 KB a request, and a quarter of the cost of an answer. Instead, closed sockets are searched for when there
 * are twice as many sockets as the last search left.
 */
export function createConnections(
  limits: ConnectionLimits,
  isProxy: (address: string | undefined) => boolean,
) {
  const sockets = new Set<KnownSocket>();
  let lookAt = FEWEST_LOOKED_THROUGH;
  const requestsAhead = createTurnBudget(AHEAD_A_TURN);
  const chunks = createTurnBudget(CHUNKS_A_TURN);
  const readings = createTurns();
  /** The socket whose turn came last. It is not held back again before it was read. */
  let inTurn: KnownSocket | null = null;
  let bytesBeforeTurn = 0;
  /** The turn before that read much. */
  let wasCostly = false;
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

  function isCostly(): boolean {
    return inTurn !== null && inTurn.bytesRead - bytesBeforeTurn > COSTLY_BYTES;
  }

  function readLater(socket: KnownSocket, goOn: Begin): void {
    readings.begin(socket[CONNECTION]!.network ?? '', () => {
      if (socket.destroyed) return false;
      if (goOn() === false) return false;
      wasCostly = isCostly();
      inTurn = socket;
      bytesBeforeTurn = socket.bytesRead;
      return true;
    });
  }

  /** Stops reading from a socket until its turn comes. */
  function hold(socket: KnownSocket): void {
    socket.pause();
    readLater(socket, () => socket.resume());
  }

  /** Holds all strangers' idle sockets: a read costs up to two milliseconds even if it is dropped, and all may bring one at once. */
  function holdStrangers(): void {
    for (const socket of sockets) {
      if (socket === inTurn) continue;
      // A paused socket resumes by itself or never, and Node pauses and resumes while a request is being answered.
      // A destroyed one would still take a turn, which others wait for: hundreds made them wait 0.8 s in place of 0.04.
      if (socket[CONNECTION]!.isProven || socket.isPaused() || socket.destroyed) continue;
      if (currentResponse(socket) === undefined) hold(socket);
    }
  }

  /** Counts the chunks of a body while they are parsed, before they are read. */
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
    /** Adds a new connection. At the limit another one is closed, or the new one if there is none to close. */
    add(socket: KnownSocket): void {
      const { remoteAddress } = socket;
      const network = remoteAddress === undefined || isProxy(remoteAddress) ? null : networkOf(remoteAddress);
      socket[CONNECTION] = {
        network,
        usedAt: performance.now(),
        ahead: 0,
        wasUsed: false,
        bytesSeen: 0,
        isProven: false,
        holdOthers: holdStrangers,
        readLater,
        provenKeepAliveMs: limits.keepAliveTimeoutMs,
      };
      sockets.add(socket);
      if (sockets.size >= lookAt) forgetClosed();
      makeRoom(socket, network);
      readings.accepted(network ?? '', wasCostly || isCostly());
      // In the next tick, because Node itself starts to read there.
      process.nextTick(hold, socket);
    },

    /** Notes a request. False: too many unanswered requests came before it, so the connection was closed. */
    used(request: IncomingMessage, response: TimedResponse): boolean {
      const connection = (request.socket as KnownSocket)[CONNECTION]!;
      connection.usedAt = performance.now();
      connection.wasUsed = true;
      // On a proven connection too, because all 401 answers must be equal.
      response._keepAliveTimeout = limits.strangerKeepAliveMs;
      // If another response has the socket, this request was pipelined.
      connection.ahead = currentResponse(request.socket) === response ? 0 : connection.ahead + 1;
      if (connection.ahead > MOST_AHEAD || (connection.ahead > 0 && !requestsAhead.spend())) {
        endAtOnce(request.socket);
        return false;
      }
      if (request.headers['transfer-encoding'] !== undefined) boundChunks(request);
      return true;
    },

    /** Closes strangers' connections that have been idle too long. Call it every few seconds. */
    closeIdle(): void {
      const before = performance.now() - limits.strangerKeepAliveMs;
      for (const socket of sockets) {
        const connection = socket[CONNECTION]!;
        const { bytesRead } = socket;
        // Requests in progress, and connections without any request, have timeouts of Node.
        const isStill = connection.bytesSeen === bytesRead;
        connection.bytesSeen = bytesRead;
        if (connection.isProven || !connection.wasUsed || !isStill || connection.usedAt > before) continue;
        if (currentResponse(socket) === undefined) socket.destroy();
      }
    },

    open: (): Socket[] => [...sockets].filter((socket) => !socket.closed),
    /** How many are kept, including some that have closed since the last search. */
    remembered: () => sockets.size,
  };
}

/**
 * Which of two connections to close first: a stranger's idle one, then a stranger's busy one, then a proven idle one, and of equal
 * ones the one that was used least recently. Never a proven busy one. Strangers go first even if busy, so that they do not cost
 * the sender its connections. The sender's own first delivery takes only milliseconds until its signature proves it.
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
