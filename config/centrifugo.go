package config

import (
	"fmt"
	"net/url"
	"strings"
)

// Who keeps the connections of workers.
const (
	PushEmbedded   = "embedded"
	PushCentrifugo = "centrifugo"
)

// maxURL bounds addresses of Centrifugo.
const maxURL = 512

// Centrifugo is [centrifugo]: who keeps the connections of workers if gateway.push says so.
type Centrifugo struct {
	// APIURL is where its API is asked, WSURL where workers connect; without a slash at their
	// ends.
	APIURL, WSURL string
	APIKeyFile    string
	SecretFile    string
}

func centrifugoKeys() []key {
	return []key{
		stringKey("centrifugo.api_url", func(c *Fixed) *string { return &c.Centrifugo.APIURL }, checkPlace("http", "https"),
			"Where the API of the Centrifugo of gateway.push is, as \"http://10.0.0.7:9000/api\":",
			"docs/scale-out.md. `skein gateway centrifugo-config` prints what Centrifugo is to be told."),
		stringKey("centrifugo.ws_url", func(c *Fixed) *string { return &c.Centrifugo.WSURL }, checkPlace("ws", "wss"),
			"Where workers connect to it, as \"wss://rt.example.org/connection/websocket\"."),
		stringKey("centrifugo.api_key_file", func(c *Fixed) *string { return &c.Centrifugo.APIKeyFile }, optionalPath,
			"File with the key of its API in one line."),
		stringKey("centrifugo.secret_file", func(c *Fixed) *string { return &c.Centrifugo.SecretFile }, optionalPath,
			"File with the secret that it shows at gateway.internal_listen, in one line; while it is",
			"changed in two, the new one first: both are good."),
	}
}

// checkPlace is of addresses with a path.
func checkPlace(schemes ...string) func(string) error {
	return func(s string) error {
		if s == "" {
			return nil
		}
		u, err := url.Parse(s)
		if err != nil || u.Scheme != schemes[0] && u.Scheme != schemes[1] || u.Host == "" || strings.Trim(u.Path, "/") == "" || strings.HasSuffix(u.Path, "/") ||
			u.User != nil || u.RawQuery != "" || u.Fragment != "" || len(s) > maxURL || strings.ContainsAny(s, " ;,'\"") {
			return fmt.Errorf("%.64q is no address of Centrifugo: want %s://HOST:PORT/PATH or %s", s, schemes[0], schemes[1])
		}
		return nil
	}
}

// checkCentrifugo looks at the keys of [centrifugo], and of [gateway] what belongs to them.
func (c *Config) checkCentrifugo() *Error {
	g, f := c.Gateway, c.Centrifugo
	needed := []struct{ key, value, hint string }{
		{"centrifugo.api_url", f.APIURL, "set centrifugo.api_url, as to http://127.0.0.1:9000/api"},
		{"centrifugo.ws_url", f.WSURL, "set centrifugo.ws_url, as to wss://rt.example.org/connection/websocket"},
		{"centrifugo.api_key_file", f.APIKeyFile, "set centrifugo.api_key_file to a file with a random line: `openssl rand -hex 32` makes one"},
		{"centrifugo.secret_file", f.SecretFile, "set centrifugo.secret_file to a file with a random line: `openssl rand -hex 32` makes one"},
	}
	if g.Push != PushCentrifugo {
		for _, n := range needed {
			if n.value != "" {
				return &Error{Key: n.key, Msg: "no connections are to be kept by this Centrifugo", Hint: "set gateway.push to centrifugo, on every gateway"}
			}
		}
		if g.InternalListen.IsValid() {
			return &Error{Key: "gateway.internal_listen", Msg: "there is no Centrifugo that would ask there", Hint: "set gateway.push to centrifugo"}
		}
		return nil
	}
	if g.Store != StoreRedis {
		return &Error{Key: "gateway.push", Msg: "Centrifugo asks any gateway, and gateway.store is " + g.Store, Hint: "set gateway.store to redis"}
	}
	for _, n := range needed {
		if n.value == "" {
			return &Error{Key: n.key, Msg: "gateway.push is centrifugo, and there is none", Hint: n.hint}
		}
	}
	in := g.InternalListen
	switch {
	case !in.IsValid():
		return &Error{Key: "gateway.internal_listen", Msg: "gateway.push is centrifugo, and there is no address where it may ask", Hint: "set gateway.internal_listen, as to 127.0.0.1:7444"}
	case !in.Addr().IsLoopback() && !meshAddr(in.Addr()):
		return &Error{
			Key: "gateway.internal_listen", Msg: in.String() + " is neither a loopback nor a private address, and secrets come there without TLS",
			Hint: "use an address that only Centrifugo reaches",
		}
	case in == g.Listen:
		return &Error{Key: "gateway.internal_listen", Msg: "it is gateway.listen", Hint: "use another port"}
	case strings.HasPrefix(g.URL, "https://") && !strings.HasPrefix(f.WSURL, "wss://"):
		return &Error{Key: "centrifugo.ws_url", Msg: f.WSURL + " is not encrypted, and gateway.url is: browsers refuse that", Hint: "put a proxy with a certificate before Centrifugo, and begin centrifugo.ws_url with wss://"}
	}
	return nil
}
