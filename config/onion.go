package config

import (
	"crypto/ecdh"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/coord/wire"
	"github.com/skein-project/skein/publisher/descriptor"
)

// Tor is [tor]: the tor process, or the one attached to.
type Tor struct {
	Enabled bool
	Program string   // empty: tor on the path
	Torrc   []string // further lines of its configuration
	// Control is the port of somebody else's tor; empty: the daemon's own.
	Control, Socks, Cookie string
}

// Onion is [onion]: what this host serves under the cluster's onion addresses.
type Onion struct {
	Targets    []string // none: nothing
	Mode       string   // http, tcp
	Port       int
	Host       string
	Points     int // introduction points; 0: by the number of hosts
	SingleHost bool
	// CheckPath is asked of HTTP targets, whose status is to be one of CheckStatus.
	CheckPath   string
	CheckStatus Statuses

	// Operators find the page of this host: public keys of clients, by name.
	Operators map[string]*ecdh.PublicKey

	Connections  int
	PerCircuit   int // of them
	BodyBytes    int64
	BodyRate     int64 // per second
	Answer, Idle time.Duration
}

// Statuses are those of HTTP from Low to High.
type Statuses struct{ Low, High int }

func (s Statuses) String() string {
	if s.Low == s.High {
		return strconv.Itoa(s.Low)
	}
	return fmt.Sprintf("%d-%d", s.Low, s.High)
}

// parseStatuses reads one status or a range.
func parseStatuses(text string) (s Statuses, err error) {
	low, high, ok := strings.Cut(text, "-")
	if !ok {
		high = low
	}
	a, errLow := strconv.Atoi(strings.TrimSpace(low))
	b, errHigh := strconv.Atoi(strings.TrimSpace(high))
	if errLow != nil || errHigh != nil || a < 100 || b > 599 || a > b {
		return s, fmt.Errorf("%q is neither a status of HTTP, like 200, nor a range, like 200-399", text)
	}
	return Statuses{a, b}, nil
}

// parseCheckPath takes the path of a request.
func parseCheckPath(s string) error {
	u, err := url.ParseRequestURI(s)
	if err != nil || u.Host != "" || s[0] != '/' || len(s) > maxArgument {
		return fmt.Errorf("%q is no path, like /health", s)
	}
	return nil
}

func onionKeys() []key {
	return []key{
		valueKey("onion.target", func(c *Fixed) *[]string { return &c.Onion.Targets }, parseTargets, showTargets,
			"What this host serves under the cluster's onion addresses: \"127.0.0.1:8080\",",
			"\"unix:/run/app.sock\", or another onion, \"<56 characters>.onion:80\". Several, at",
			"most eight, are separated by commas: connections (http: requests) go in turn to those",
			"that are up, whoever the client is. Empty: this host serves none, and may still",
			"publish. Needs tor.enabled."),
		valueKey("onion.mode", func(c *Fixed) *string { return &c.Onion.Mode }, oneOf("http", "tcp"), word,
			"http rewrites the target's names and bounds what clients send; tcp passes bytes, and",
			"only checks that a target takes connections: one that hangs stays in use."),
		intKey("onion.port", func(c *Fixed) *int { return &c.Onion.Port }, 1, 65535,
			"Port of the onion addresses, the same on all hosts."),
		stringKey("onion.host", func(c *Fixed) *string { return &c.Onion.Host }, text0,
			"The Host header that HTTP targets see. Empty: each its own name."),
		stringKey("onion.check_path", func(c *Fixed) *string { return &c.Onion.CheckPath }, parseCheckPath,
			"Path that HTTP targets are asked for every 5 s, to find out whether they are healthy.",
			"One that does not answer within 5 s with onion.check_status, three times in a row, is",
			"passed over while others are healthy, until it did three times in a row."),
		valueKey("onion.check_status", func(c *Fixed) *Statuses { return &c.Onion.CheckStatus }, parseStatuses, Statuses.String,
			"Status, or range of them, with which a healthy target answers: \"200\", \"200-399\"."),
		intKey("onion.weight", func(c *Live) *uint32 { return &c.OnionWeight }, 0, event.MaxOnionWeight,
			"This host's share of the introduction points relative to the others'. 0: none, it is",
			"drained."),
		intKey("onion.intro_points", func(c *Fixed) *int { return &c.Onion.Points }, 0, 10,
			"Introduction points that this host keeps, 3 to 10. 0: by the number of hosts."),
		boolKey("onion.single_host", func(c *Fixed) *bool { return &c.Onion.SingleHost },
			"While this host is the only member, let tor publish the addresses by itself."),
		intKey("onion.connections", func(c *Fixed) *int { return &c.Onion.Connections }, 1, 1<<16,
			"Simultaneous connections to the targets; more wait."),
		intKey("onion.circuit_connections", func(c *Fixed) *int { return &c.Onion.PerCircuit }, 1, 1<<15,
			"How many of them one client may have, that is one circuit of tor; more are closed, and",
			"at twice as many the circuit. A browser uses six."),
		intKey("onion.body_bytes", func(c *Fixed) *int64 { return &c.Onion.BodyBytes }, 1, 1<<40,
			"Largest body of an HTTP request."),
		intKey("onion.body_rate", func(c *Fixed) *int64 { return &c.Onion.BodyRate }, 1, 1<<30,
			"Bytes per second at which such a body has to come, after 30 seconds: a client that is",
			"slower gets 408. What the target makes it wait does not count."),
		floatKey("onion.answer_seconds",
			func(c *Fixed) float64 { return c.Onion.Answer.Seconds() },
			func(c *Fixed, f float64) { c.Onion.Answer = time.Duration(f * float64(time.Second)) }, 0.1, 3600,
			"How long an HTTP target may take to answer."),
		floatKey("onion.idle_seconds",
			func(c *Fixed) float64 { return c.Onion.Idle.Seconds() },
			func(c *Fixed, f float64) { c.Onion.Idle = time.Duration(f * float64(time.Second)) }, 1, 86400,
			"A connection that is idle for this long is closed."),
		spec[Fixed]{
			name: "onion.operators", kind: "a table of name = key",
			doc: []string{
				"Who finds this host's page at an onion address of its own, which `skein onion status`",
				"prints: alice = \"descriptor:x25519:<52 characters>\", the public key of alice's tor. It shows,",
				"and changes nothing; whoever has no key does not find it. Needs tor.enabled.",
			},
			parse: parseOperators, set: setOperators, show: showOperators,
		}.key(),
	}
}

// parseTargets reads the targets that commas separate. Package proxy says what
// each may be.
func parseTargets(s string) ([]string, error) {
	if err := text0(s); err != nil || s == "" {
		return nil, err
	}
	list := strings.Split(s, ",")
	if len(list) > wire.MaxBackends {
		return nil, fmt.Errorf("%d targets, at most %d are allowed", len(list), wire.MaxBackends)
	}
	size := 0
	for i, t := range list {
		t = strings.TrimSpace(t)
		switch {
		case t == "":
			return nil, fmt.Errorf("target %d of %d is empty", i+1, len(list))
		case slices.Contains(list[:i], t):
			return nil, fmt.Errorf("target %q is listed twice", t)
		}
		list[i] = t
		size += len(t)
	}
	if size > wire.MaxBackendNames { // else other hosts would not hear of all
		return nil, fmt.Errorf("the targets have %d bytes together, at most %d are allowed", size, wire.MaxBackendNames)
	}
	return list, nil
}

func showTargets(list []string) string { return strings.Join(list, ", ") }

// settleOnion checks what one key of [onion] alone cannot.
func (c *Config) settleOnion() *Error {
	switch o := c.Onion; {
	case len(o.Targets) > 0 && !c.Tor.Enabled:
		return &Error{Key: "onion.target", Msg: "an onion address needs tor", Hint: "set tor.enabled = true"}
	case len(o.Targets) > 0 && c.Tor.Control != "":
		return &Error{Key: "onion.target", Msg: "a tor that runs already serves no onion of this host", Hint: "leave tor.control empty, or onion.target"}
	case len(o.Operators) > 0 && !c.Tor.Enabled:
		return &Error{Key: "onion.operators", Msg: "an onion address needs tor", Hint: "set tor.enabled = true"}
	case len(o.Operators) > 0 && c.Tor.Control != "":
		return &Error{Key: "onion.operators", Msg: "a tor that runs already serves no onion of this host", Hint: "leave tor.control empty, or onion.operators"}
	case o.Points == 1 || o.Points == 2:
		return &Error{Key: "onion.intro_points", Msg: fmt.Sprintf("%d is out of range, want 3 to 10, or 0", o.Points), Hint: "0 chooses by the number of hosts"}
	}
	return nil
}

// maxOperators is far below what fits in a descriptor.
const maxOperators = 32

// setOperators takes public keys by the names of who has them.
func setOperators(c *Fixed, v any) error {
	table, ok := v.(map[string]any)
	if !ok {
		return errType{"a table of name = key", typeName(v)}
	}
	if len(table) > maxOperators {
		return fmt.Errorf("%d operators, at most %d are allowed", len(table), maxOperators)
	}
	keys, whose := map[string]*ecdh.PublicKey{}, map[string]string{}
	for _, name := range sortedKeys(table) {
		if len(name) > 32 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" || name == "" {
			return fmt.Errorf("%.64q is no name of an operator: want a-z, 0-9 and '-', at most 32", name)
		}
		text, ok := table[name].(string)
		if !ok {
			return fmt.Errorf("%s: %w", name, errType{"a string", typeName(table[name])})
		}
		key, err := descriptor.ParseClientKey(text)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if other, twice := whose[string(key.Bytes())]; twice {
			return fmt.Errorf("%s and %s have the same key: give each a key of their own, or name it once", other, name)
		}
		keys[name], whose[string(key.Bytes())] = key, name
	}
	c.Onion.Operators = keys
	return nil
}

// parseOperators reads "alice=descriptor:x25519:...,bob=descriptor:x25519:...".
func parseOperators(s string) (any, error) {
	table := map[string]any{}
	for part := range strings.SplitSeq(s, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		name, key, ok := strings.Cut(part, "=")
		if _, twice := table[name]; !ok || twice {
			return nil, errType{"name=key,...", strconv.Quote(part)}
		}
		table[name] = key
	}
	return table, nil
}

func showOperators(c *Fixed) string {
	var parts []string
	for _, name := range sortedKeys(c.Onion.Operators) {
		parts = append(parts, name+" = "+quote(descriptor.FormatClientKey(c.Onion.Operators[name])))
	}
	if parts == nil {
		return "{}"
	}
	return "{ " + strings.Join(parts, ", ") + " }"
}

// Bounds of tor.torrc.
const (
	maxTorrcLines = 64
	maxTorrcLine  = 1024
)

// ownedByTorrc are options of tor that the daemon sets itself.
func ownedByTorrc() []string {
	return []string{
		"datadirectory", "controlport", "controlsocket", "cookieauthentication", "cookieauthfile", "hashedcontrolpassword",
		"hiddenservice", "__owningcontrollerprocess", "runasdaemon", "user", "log ",
	}
}

func torKeys() []key {
	return []key{
		boolKey("tor.enabled", func(c *Fixed) *bool { return &c.Tor.Enabled },
			"Run a tor process of the daemon's own, or attach to one: for onion addresses, and",
			"for hosts that can reach each other no other way."),
		stringKey("tor.program", func(c *Fixed) *string { return &c.Tor.Program }, optionalPath,
			"The tor program. Empty: tor on the path."),
		spec[Fixed]{
			name: "tor.torrc", kind: "a list of strings",
			doc: []string{
				"Further lines of tor's configuration, like \"Bridge 192.0.2.1:443 ...\". Onion",
				"services, directories and sockets are set by the daemon.",
			},
			parse: func(s string) (any, error) { return splitLines(s), nil },
			set:   setTorrc,
			show:  func(c *Fixed) string { return showTexts(c.Tor.Torrc) },
		}.key(),
		stringKey("tor.control", func(c *Fixed) *string { return &c.Tor.Control }, text0,
			"Control port of a tor that is already running, \"unix:/run/tor/control\" or",
			"\"127.0.0.1:9051\". Such a tor serves no onion of this host, but publishes and connects.",
			"Empty: the daemon runs its own tor."),
		stringKey("tor.socks", func(c *Fixed) *string { return &c.Tor.Socks }, text0,
			"Its SOCKS port, likewise; only with tor.control."),
		stringKey("tor.cookie", func(c *Fixed) *string { return &c.Tor.Cookie }, optionalPath,
			"Its authentication cookie, like \"/run/tor/control.authcookie\". Empty: it needs none."),
	}
}

// text0 takes what has no line ends; the meaning is checked where it is used.
func text0(s string) error {
	if len(s) > maxArgument || strings.ContainsAny(s, "\r\n\x00") {
		return errors.New("not a line of text")
	}
	return nil
}

// splitLines reads a list whose entries are separated by ';', since lines of a
// torrc contain commas.
func splitLines(s string) any {
	list := []any{}
	for part := range strings.SplitSeq(s, ";") {
		if part = strings.TrimSpace(part); part != "" {
			list = append(list, part)
		}
	}
	return list
}

func texts(v any, limit int) ([]string, error) {
	list, ok := v.([]any)
	if !ok {
		return nil, errType{"a list of strings", typeName(v)}
	}
	if len(list) > limit {
		return nil, fmt.Errorf("%d entries, at most %d are allowed", len(list), limit)
	}
	out := make([]string, 0, len(list))
	for _, e := range list {
		s, ok := e.(string)
		if !ok {
			return nil, errType{"a list of strings", "a list with " + typeName(e)}
		}
		out = append(out, s)
	}
	return out, nil
}

func setTorrc(c *Fixed, v any) error {
	lines, err := texts(v, maxTorrcLines)
	if err != nil {
		return err
	}
	for i, line := range lines {
		line = strings.TrimSpace(line)
		lines[i] = line
		if line == "" || len(line) > maxTorrcLine || strings.ContainsAny(line, "\r\n\x00") {
			return fmt.Errorf("%q is not one line of at most %d bytes", line, maxTorrcLine)
		}
		low := strings.TrimLeft(strings.ToLower(line), "+/")
		if slices.ContainsFunc(ownedByTorrc(), func(p string) bool { return strings.HasPrefix(low+" ", p) }) || strings.HasPrefix(low, "%include") {
			return fmt.Errorf("%q is set by the daemon itself", line)
		}
	}
	c.Tor.Torrc = lines
	return nil
}

func showTexts(list []string) string {
	parts := make([]string, len(list))
	for i, s := range list {
		parts[i] = quote(s)
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// settleTor checks what one key of [tor] alone cannot.
func (c *Config) settleTor() *Error {
	switch t := c.Tor; {
	case t.Control == "" && (t.Socks != "" || t.Cookie != ""):
		return &Error{Key: "tor.socks", Msg: "tor.socks and tor.cookie need tor.control", Hint: "leave all three empty for a tor of the daemon's own"}
	case t.Control != "" && t.Socks == "":
		return &Error{Key: "tor.control", Msg: "tor.control needs tor.socks", Hint: "name the SOCKS port of the same tor"}
	case t.Control != "" && (len(t.Torrc) > 0 || t.Program != ""):
		return &Error{Key: "tor.control", Msg: "a tor that runs already takes no tor.program and no tor.torrc", Hint: "configure it where it is started"}
	}
	return nil
}
