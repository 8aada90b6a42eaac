// node: undici, axios or got (the first argument), through the proxy of the environment; the last five at a time.
// Keep-alive through tunnels needs an agent: Tunnel does what the packages for it do.
const http = require("http"), https = require("https"), tls = require("tls");
const [library, ...urls] = process.argv.slice(2);
const proxy = new URL(process.env.http_proxy);

class Tunnel extends https.Agent {
  createConnection(options, done) {
    const host = `${options.host}:${options.port}`;
    http.request({host: proxy.hostname, port: proxy.port, method: "CONNECT", path: host, headers: {Host: host}})
      .on("connect", (answer, socket) => done(null, tls.connect({socket, servername: options.host})))
      .on("error", done).end();
  }
}

// For http:// the whole URL goes to the proxy.
class Forward extends http.Agent {
  addRequest(request, options) {
    request.path = `http://${options.host}:${options.port}${request.path}`;
    super.addRequest(request, {...options, host: proxy.hostname, port: Number(proxy.port)});
  }
}

const agents = {http: new Forward({keepAlive: true, maxSockets: 2}), https: new Tunnel({keepAlive: true, maxSockets: 2})};

const callers = {
  undici(url) {
    const {ProxyAgent, Pool} = require("undici");
    const plain = url.startsWith("http:");
    const dispatcher = plain ? new Pool(proxy.href, {connections: 2}) : new ProxyAgent({uri: proxy.href, connections: 2});
    const host = new URL(url).host;
    const call = async (path, body) => {
      const options = {method: body ? "POST" : "GET", body, path: plain ? url + path : path, headers: plain ? {host} : {}};
      const answer = await dispatcher.request(plain ? options : {...options, origin: url});
      return answer.body.text();
    };
    return {call, end: () => dispatcher.close()};
  },
  axios(url) {
    const client = require("axios").create(url.startsWith("http:") ? {httpAgent: new http.Agent({keepAlive: true, maxSockets: 2})}
                                                                  : {httpsAgent: agents.https, proxy: false});
    const call = async (path, data) =>
      (await client.request({url: url + path, method: data ? "POST" : "GET", data, responseType: "text", maxBodyLength: Infinity,
                             transformResponse: (text) => text})).data;
    return {call, end() {}};
  },
  got(url) {
    const got = require("got");
    const call = (path, body) => got(url + path, {method: body ? "POST" : "GET", body, agent: agents, retry: 0}).text();
    return {call, end() {}};
  },
};

const same = (found, wanted) => { if (found !== wanted) throw new Error(`${found} is not ${wanted}`); };

(async () => {
  for (const url of urls) {
    const {call, end} = callers[library](url);
    for (let n = 0; n < 10; n++) same(await call(`/${n}`), "ok");
    same(await call("/up", "x".repeat(2000000)), "2000000");
    same((await call("/down")).length, 3000000);
    for (const text of await Promise.all([0, 1, 2, 3, 4].map((n) => call(`/${n}`)))) same(text, "ok");
    await end();
  }
  process.exit(0);
})().catch((error) => { console.error(error); process.exit(1); });
