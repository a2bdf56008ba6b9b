import { Agent, createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';

/** What stands in front of several receivers: passes each delivery on to the next of them. */
export interface Balancer {
  close(): Promise<void>;
}

/** Listens on `own`; `ports` are of receivers. All on 127.0.0.1. One that is not there is left out, as a load balancer would. */
export async function startBalancer(own: number, ports: readonly number[]): Promise<Balancer> {
  const agent = new Agent({ keepAlive: true });
  let turn = 0;

  function pass(body: Buffer, incoming: IncomingMessage, response: ServerResponse, tries: number): void {
    turn += 1;
    const port = ports[turn % ports.length];
    const onward = request(
      {
        ...{ agent, host: '127.0.0.1', port, method: incoming.method, path: incoming.url },
        headers: { ...incoming.headers, 'content-length': body.length },
      },
      (answer) => {
        response.writeHead(answer.statusCode ?? 502, answer.headers);
        answer.pipe(response);
      },
    );
    onward.once('error', () => {
      if (tries < ports.length && !response.headersSent) pass(body, incoming, response, tries + 1);
      else if (response.headersSent) response.destroy();
      else response.writeHead(502).end();
    });
    onward.end(body);
  }

  const server = createServer((incoming, response) => {
    const parts: Buffer[] = [];
    incoming.on('data', (part: Buffer) => parts.push(part));
    incoming.on('end', () => pass(Buffer.concat(parts), incoming, response, 1));
    incoming.on('error', () => response.destroy());
  });
  await new Promise<void>((resolve) => server.listen(own, '127.0.0.1', resolve));
  return {
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
      agent.destroy();
    },
  };
}
