import { connect, createServer, type Socket } from 'node:net';

interface ToServer {
  socket: Socket;
  /** Whose transaction is on it. */
  client: Client | null;
}

interface Client {
  socket: Socket;
  has: ToServer | null;
  isSignedIn: boolean;
}

const code = (letter: string) => letter.charCodeAt(0);
const [TERMINATE, READY, IDLE] = [code('X'), code('Z'), code('I')];

/** Messages of the protocol, each whole: a letter, and a length that counts itself. */
function messages(take: (message: Buffer) => void): (bytes: Buffer) => void {
  let rest = Buffer.alloc(0);
  return (bytes) => {
    rest = Buffer.concat([rest, bytes]);
    while (rest.length >= 5 && rest.length > rest.readUInt32BE(1)) {
      const end = 1 + rest.readUInt32BE(1);
      const message = rest.subarray(0, end);
      rest = rest.subarray(end);
      take(message);
    }
  };
}

const REFUSED = 'transaction blocks not allowed in statement pooling mode';
/** FATAL, of the protocol. */
function fatal(says: string): Buffer {
  const fields = Buffer.from(`SFATAL\0VFATAL\0C08P01\0M${says}\0\0`);
  const head = Buffer.alloc(5);
  head.write('E');
  head.writeUInt32BE(4 + fields.length, 1);
  return Buffer.concat([head, fields]);
}

/**
 * As PgBouncer does it with `pool_mode = transaction`: whoever begins a transaction, or asks without one, gets the
 * connection to the server that was last given back, and gives it back at the end. With `statement`, whoever begins one is told
 * off, and out.
 */
export async function startPooler(
  serverPort: number,
  mode: 'transaction' | 'statement',
  /** To the server, once clients have signed in. */
  most = Infinity,
): Promise<{ port: number; close(): void }> {
  const idle: ToServer[] = [];
  let connections = 0;
  /** Clients for whom there is no connection, with what they have sent. */
  const waiting = new Map<Client, Buffer[]>();
  const sockets = new Set<Socket>();
  const kept = (socket: Socket) => {
    sockets.add(socket);
    return socket.on('error', () => undefined);
  };

  function connectionFor(client: Client): ToServer {
    const to: ToServer = { socket: kept(connect(serverPort, '127.0.0.1')), client };
    to.socket.on(
      'data',
      messages((message) => {
        if (mode === 'statement' && message[0] === READY && message[5] !== IDLE) {
          to.client?.socket.end(fatal(REFUSED));
          to.client = null;
          to.socket.destroy();
        }
        to.client?.socket.write(message);
        if (message[0] !== READY || message[5] !== IDLE || to.client === null) return;
        // One that others have used goes first: there a new client needs none of its own.
        const isNew = !to.client.isSignedIn;
        Object.assign(to.client, { has: null, isSignedIn: true });
        to.client = null;
        if (isNew && connections === most) return void to.socket.destroy();
        if (isNew) connections += 1;
        const [next] = waiting;
        if (next === undefined) return void (isNew ? idle.unshift(to) : idle.push(to));
        waiting.delete(next[0]);
        Object.assign(to, { client: next[0] });
        next[0].has = to;
        for (const each of next[1]) to.socket.write(each);
      }),
    );
    return to;
  }

  const pooler = createServer((socket) => {
    const client: Client = { socket: kept(socket), has: null, isSignedIn: false };
    client.has = connectionFor(client);
    const forward = messages((message) => {
      if (message[0] === TERMINATE) return;
      client.has ??= idle.pop() ?? null;
      if (client.has === null) {
        if (connections < most) return void socket.destroy();
        return void waiting.set(client, [...(waiting.get(client) ?? []), message]);
      }
      client.has.client = client;
      client.has.socket.write(message);
    });
    // The first message has no letter, and signing in is between the two of them.
    socket.on('data', (bytes: Buffer) => {
      if (client.isSignedIn) forward(bytes);
      else client.has?.socket.write(bytes);
    });
  });
  await new Promise<void>((resolve) => pooler.listen(0, '127.0.0.1', resolve));
  return {
    port: (pooler.address() as { port: number }).port,
    close() {
      for (const socket of sockets) socket.destroy();
      pooler.close();
    },
  };
}
