// Adds the token that the conformance suite cannot send. Arguments: the server, the token. Prints its own port.
import http from "node:http";

const [server, token] = process.argv.slice(2);
const proxy = http.createServer((request, answer) => {
  const own = `127.0.0.1:${proxy.address().port}`;
  const local = own.replace("127.0.0.1", "localhost");
  // Names of the proxy stand for the server; all others are handed on, since the suite tries wrong ones.
  const named = (text) => text?.replace(own, server).replace(local, server);
  const headers = { ...request.headers, authorization: `Bearer ${token}` };
  headers.host = named(headers.host);
  if (headers.origin) headers.origin = named(headers.origin);
  const [host, port] = server.split(":");
  const sent = http.request({ host, port, path: request.url, method: request.method, headers, setHost: false }, (reply) => {
    answer.writeHead(reply.statusCode, reply.headers);
    reply.pipe(answer);
  });
  sent.on("error", () => answer.destroy());
  answer.on("close", () => sent.destroy());
  request.pipe(sent);
});
proxy.listen(0, "127.0.0.1", () => console.log(proxy.address().port));
