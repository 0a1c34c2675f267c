package centrifugo

import (
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/gateway/auth"
	"github.com/skein-project/skein/gateway/channel"
)

// Bounds of what Centrifugo asks.
const (
	maxAsking     = 1024
	maxBody       = 4 * channel.MaxMessage
	maxHeader     = 8 << 10
	headerTimeout = 5 * time.Second
	readTimeout   = 10 * time.Second
	writeTimeout  = 20 * time.Second
	idleTimeout   = 2 * time.Minute
)

// SecretHeader is where Centrifugo shows its secret.
const SecretHeader = "Skein-Proxy-Secret"

// keysPath is where Centrifugo asks for the public keys of tokens.
const keysPath = "/.well-known/jwks.json"

// ProxyTime is how long Centrifugo may wait for an answer: a store of workers that does not
// answer is given up after 3 seconds.
const ProxyTime = 5 * time.Second

// Codes by which the protocol ends the connection of a token that is none.
const codeInvalidToken = 3500

// asked is what Centrifugo asks, as far as it matters.
type asked struct {
	User    auth.Client     `json:"user"`    // all but connect
	Channel string          `json:"channel"` // subscribe, sub_refresh
	Method  string          `json:"method"`  // rpc
	Data    json.RawMessage `json:"data"`    // rpc
}

// said is an answer: one of them.
type said struct {
	Result     any            `json:"result,omitempty"`
	Error      *channel.Error `json:"error,omitempty"`
	Disconnect *ending        `json:"disconnect,omitempty"`
}

// outcome is how it is counted.
func (s said) outcome() string {
	switch {
	case s.Disconnect != nil:
		return ended
	case s.Error != nil:
		return failed
	}
	return answered
}

func end(d api.Disconnect) said {
	e := endingOf(d)
	return said{Disconnect: &e}
}

func (n *Node) serverOf() *http.Server {
	m := http.NewServeMux()
	for name, answer := range map[string]func(asked) said{"connect": n.connect, "refresh": n.refresh, "subscribe": n.subscribe, "sub_refresh": n.subRefresh, "rpc": n.rpc} {
		m.HandleFunc("POST /proxy/"+name, func(w http.ResponseWriter, r *http.Request) { n.proxy(w, r, name, answer) })
	}
	m.Handle("GET "+keysPath, n.o.Keys)
	return &http.Server{
		Handler: m, ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeader, ErrorLog: log.New(quiet{n.log}, "", 0),
	}
}

// quiet takes net/http's complaints.
type quiet struct{ log zerolog.Logger }

// Write implements io.Writer.
func (q quiet) Write(p []byte) (int, error) {
	q.log.Debug().Str("err", strings.TrimSpace(string(p))).Msg("http server of proxies")
	return len(p), nil
}

// proxy answers one question of Centrifugo's. What is no answer, a worker learns as an error
// that goes by.
func (n *Node) proxy(w http.ResponseWriter, r *http.Request, name string, answer func(asked) said) {
	refuse := func(status int, outcome, why string) {
		n.metrics.asked.WithLabelValues(name, outcome).Inc()
		if n.gate.Pass(outcome) {
			n.log.Warn().Str("addr", r.RemoteAddr).Str("reason", why).Msg("a question of Centrifugo's is refused")
		}
		http.Error(w, why, status)
	}
	if !n.secret.has(r.Header.Get(SecretHeader)) {
		refuse(http.StatusUnauthorized, unauthorized, "it does not show the secret of centrifugo.secret_file")
		return
	}
	select {
	case n.asking <- struct{}{}:
		defer func() { <-n.asking }()
	default:
		refuse(http.StatusServiceUnavailable, busy, "too much is asked at once")
		return
	}
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		refuse(http.StatusRequestEntityTooLarge, malformed, "its body is too long, or did not come whole")
		return
	}
	var q asked
	if err := json.Unmarshal(text, &q); err != nil {
		refuse(http.StatusBadRequest, malformed, "it is no question of a Centrifugo v5")
		return
	}
	s := answer(q)
	n.metrics.asked.WithLabelValues(name, s.outcome()).Inc()
	out, err := json.Marshal(s)
	if err != nil {
		n.log.Error().Err(err).Str("request", name).Msg("answer cannot be written")
		http.Error(w, "it failed", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(out) // it may have gone
}

// connect is asked for who shows no token.
func (n *Node) connect(asked) said {
	return said{Disconnect: &ending{Code: codeInvalidToken, Reason: "invalid token"}}
}

// who says whether the client of a question may be connected; false: it may not, and is said
// so.
func (n *Node) who(q asked) (answer said, ok bool) {
	_, works := q.User.Worker()
	_, listens := q.User.Access()
	if !works && !listens {
		return n.connect(q), false
	}
	err := n.o.Stays(q.User)
	if err == nil {
		n.saw(q.User)
		return said{}, true
	}
	if d, shut := errors.AsType[*api.Disconnect](err); shut {
		return end(*d), false
	}
	p, known := errors.AsType[*api.Problem](err)
	if !known {
		n.log.Warn().Err(err).Str("client", string(q.User)).Msg("whether a client may be connected cannot be said")
		p = internal()
	}
	return said{Error: channel.ErrorOf(p)}, false
}

// internal is all that anybody learns of what is wrong here.
func internal() *api.Problem {
	return api.Errorf(api.CodeInternal, "it failed: the host's log says why")
}

// expired is all that Centrifugo looks at of what may not go on.
func expired() said { return said{Result: map[string]bool{"expired": true}} }

// refresh is asked when a connection gets as old as a token.
func (n *Node) refresh(q asked) said {
	if _, ok := n.who(q); !ok {
		return expired()
	}
	return said{Result: map[string]int64{"expire_at": n.o.Wall().Add(n.o.Life).Unix()}}
}

func (n *Node) subscribe(q asked) said {
	if answer, ok := n.who(q); !ok {
		return answer
	}
	if err := n.o.Listen(q.User, q.Channel); err != nil {
		return said{Error: err}
	}
	return n.hear(q.Channel, true)
}

// subRefresh is asked every channel.Life of who listens.
func (n *Node) subRefresh(q asked) said {
	if _, ok := n.who(q); !ok || n.o.Listen(q.User, q.Channel) != nil {
		return expired()
	}
	return n.hear(q.Channel, false)
}

// hear has who may listen do so.
func (n *Node) hear(name string, anew bool) said {
	if kind, _ := channel.Of(name); kind == channel.Work {
		return said{Result: struct{}{}}
	}
	room, err := n.o.Ears.Hear(name, anew)
	switch {
	case err != nil && anew:
		return said{Error: channel.ErrorOf(api.Errorf(api.CodeNotReady, "%v", err))}
	case err == nil && !room:
		return said{Error: channel.Full()}
	}
	return said{Result: map[string]int64{"expire_at": n.o.Wall().Add(channel.Life).Unix()}}
}

func (n *Node) rpc(q asked) said {
	if answer, ok := n.who(q); !ok {
		return answer
	}
	worker, works := q.User.Worker()
	n.mu.Lock()
	late := n.asked.Take(0, string(q.User), n.o.Now()) > 0
	n.mu.Unlock()
	if late {
		return end(api.Disconnect{Code: api.DisconnectLimit, Reason: "the client asks too often"})
	}
	if !works {
		return said{Error: channel.NoCall()}
	}
	out, prob := n.o.Call(worker, "", q.Method, q.Data)
	if prob != nil {
		return said{Error: channel.ErrorOf(prob)}
	}
	text, err := json.Marshal(out)
	if err != nil {
		n.log.Error().Err(err).Str("request", q.Method).Msg("answer cannot be written")
		return said{Error: channel.ErrorOf(internal())}
	}
	return said{Result: map[string]json.RawMessage{"data": text}}
}
