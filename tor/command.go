package tor

import (
	"context"
	"crypto/ecdh"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/cretz/bine/control"
	"golang.org/x/net/proxy"
)

// maxServers bounds the HSDirs of one post.
const maxServers = 128

// info asks for one value. A text of several lines ends with a line feed.
func (s *session) info(ctx context.Context, limit time.Duration, key string) (string, error) {
	return call(ctx, s, "GETINFO", limit, func(c *control.Conn) (string, error) {
		values, err := c.GetInfo(key)
		if err != nil {
			return "", err
		}
		if len(values) != 1 || values[0].Key != key {
			return "", fmt.Errorf("%w: %d values for %s", ErrProtocol, len(values), key)
		}
		if text, ok := strings.CutPrefix(values[0].Val, "\r\n"); ok {
			return text + "\n", nil
		}
		return values[0].Val, nil
	})
}

// ask runs a GETINFO on the present session.
func (t *Tor) ask(ctx context.Context, limit time.Duration, key string) (string, error) {
	s, err := t.session()
	if err != nil {
		return "", fmt.Errorf("ask tor for %s: %w", key, err)
	}
	value, err := s.info(ctx, limit, key)
	if err != nil {
		return "", fmt.Errorf("ask tor for %s: %w", key, err)
	}
	return value, nil
}

// Consensus is the current microdescriptor consensus. ErrNoDescriptor: tor has
// none yet.
func (t *Tor) Consensus(ctx context.Context) (string, error) {
	return t.ask(ctx, bulkTime, "dir/status-vote/current/consensus-microdesc")
}

// Microdescriptors are all that tor knows, in one text.
func (t *Tor) Microdescriptors(ctx context.Context) (string, error) {
	return t.ask(ctx, bulkTime, "md/all")
}

// Descriptor is the current descriptor of an own service, as tor signed it.
// ErrNoDescriptor: there is none yet, or the service is not this tor's.
func (t *Tor) Descriptor(ctx context.Context, address string) (string, error) {
	id, err := shortAddress(address)
	if err != nil {
		return "", err
	}
	return t.ask(ctx, commandTime, "hs/service/desc/id/"+id)
}

// TestingNetwork says whether this tor is in a network with test timings, and
// so with short time periods.
func (t *Tor) TestingNetwork(ctx context.Context) (bool, error) {
	s, err := t.session()
	if err != nil {
		return false, err
	}
	return call(ctx, s, "GETCONF", commandTime, func(c *control.Conn) (bool, error) {
		values, err := c.GetConf("TestingTorNetwork")
		if err != nil {
			return false, err
		}
		return len(values) == 1 && values[0].Val == "1", nil
	})
}

// authorize gives tor the key with which it reads the descriptors of an address
// under restricted discovery (ONION_CLIENT_AUTH_ADD), in place of one that it
// has. Tor forgets it with its end, with a reload and with a new identity,
// whoever asks for these.
func (t *Tor) authorize(ctx context.Context, address string, key *ecdh.PrivateKey) error {
	id, err := shortAddress(address)
	if err != nil {
		return fmt.Errorf("authorize: %w", err)
	}
	if key.Curve() != ecdh.X25519() {
		return fmt.Errorf("authorize to %s: not a key of X25519", address)
	}
	text := "ONION_CLIENT_AUTH_ADD " + id + " x25519:" + base64.StdEncoding.EncodeToString(key.Bytes())
	err = t.command(ctx, "ONION_CLIENT_AUTH_ADD", func(c *control.Conn) error {
		_, err := c.SendRequest("%s", text)
		return err
	})
	// 252: it can now read a descriptor that it has.
	if e, ok := errors.AsType[*ReplyError](err); ok && e.Code/100 == 2 {
		err = nil
	}
	if err != nil {
		return fmt.Errorf("authorize to %s: %w", address, err)
	}
	return nil
}

// NewIdentity makes tor forget its circuits, fetched descriptors and the keys of
// DialPrivate. Tor obeys once in ten seconds, to what comes sooner later.
func (t *Tor) NewIdentity(ctx context.Context) error { return t.signal(ctx, "NEWNYM") }

func (t *Tor) signal(ctx context.Context, name string) error {
	return t.command(ctx, "SIGNAL", func(c *control.Conn) error { return c.Signal(name) })
}

func (t *Tor) command(ctx context.Context, name string, f func(*control.Conn) error) error {
	s, err := t.session()
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	_, err = s.do(ctx, name, commandTime, func(c *control.Conn) (struct{}, error) { return struct{}{}, f(c) })
	return err
}

// Post hands tor a descriptor for the HSDirs named, by 40 hexadecimal digits
// each. Without error it is queued: what becomes of it comes as HSDesc events,
// see Upload. ErrUnknownRelay and ErrBadDescriptor: nothing was queued.
func (t *Tor) Post(ctx context.Context, address string, hsdirs []string, descriptor string) error {
	text, err := postCommand(address, hsdirs, descriptor)
	if err != nil {
		return fmt.Errorf("post descriptor: %w", err)
	}
	if err := t.command(ctx, "HSPOST", func(c *control.Conn) error {
		_, err := c.SendRequest("%s", text)
		return err
	}); err != nil {
		return fmt.Errorf("post descriptor of %s: %w", address, err)
	}
	return nil
}

// postCommand is the whole command without its last line end. Both arguments
// must be there: without SERVER tor chooses wrong HSDirs for half of the day,
// without HSADDRESS it never answers.
func postCommand(address string, hsdirs []string, descriptor string) (string, error) {
	id, err := shortAddress(address)
	if err != nil {
		return "", err
	}
	if len(hsdirs) == 0 || len(hsdirs) > maxServers {
		return "", fmt.Errorf("%d HSDirs, want 1 to %d", len(hsdirs), maxServers)
	}
	var b strings.Builder
	b.WriteString("+HSPOST")
	for _, d := range hsdirs {
		if relayID("$"+d) != d {
			return "", fmt.Errorf("HSDir %q is not 40 hexadecimal digits", d)
		}
		b.WriteString(" SERVER=" + d)
	}
	b.WriteString(" HSADDRESS=" + id + "\r\n")
	body := strings.TrimSuffix(strings.ReplaceAll(descriptor, "\r\n", "\n"), "\n")
	if body == "" || strings.ContainsAny(body, "\r\x00") {
		return "", fmt.Errorf("%w: not a text of lines", ErrBadDescriptor)
	}
	for line := range strings.SplitSeq(body, "\n") {
		if strings.HasPrefix(line, ".") {
			b.WriteByte('.')
		}
		b.WriteString(line + "\r\n")
	}
	b.WriteByte('.')
	return b.String(), nil
}

// shortAddress is the form in which the control port names a service.
func shortAddress(address string) (string, error) {
	if !onionAddress.MatchString(address) {
		return "", fmt.Errorf("%q is no onion address", address)
	}
	return strings.TrimSuffix(address, ".onion"), nil
}

// Result is what became of a descriptor at one HSDir.
type Result struct {
	HSDir string
	Err   error // nil: uploaded
}

// RejectedError is tor's report that an HSDir did not take or give a
// descriptor.
type RejectedError struct{ Reason string }

// Error is the reason in tor's word.
func (e *RejectedError) Error() string { return "HSDir: " + e.Reason }

// Rejected reports whether an HSDir refused a descriptor, as it does when it
// has one of the same or a higher revision.
func Rejected(err error) bool {
	e, ok := errors.AsType[*RejectedError](err)
	return ok && e.Reason == "UPLOAD_REJECTED"
}

// errNoEvent stands for an HSDir of which nothing was heard: dead ones make no
// event.
var errNoEvent = fmt.Errorf("no word from the HSDir: %w", ErrDeadline)

// Upload posts a descriptor and waits until tor reported on every HSDir or the
// context ends. Events name no descriptor: one upload of an address at a time.
func (t *Tor) Upload(ctx context.Context, address string, hsdirs []string, descriptor string) ([]Result, error) {
	sub := t.Subscribe(eventQueue)
	defer sub.Close()
	if err := t.Post(ctx, address, hsdirs, descriptor); err != nil {
		return nil, err
	}
	results := make([]Result, len(hsdirs))
	open := len(hsdirs)
	for i, d := range hsdirs {
		results[i] = Result{HSDir: d, Err: errNoEvent}
	}
	for open > 0 {
		event, err := sub.Next(ctx)
		if err != nil {
			return results, nil
		}
		e, ok := event.(HSDesc)
		if _, gone := event.(Disconnected); gone {
			return results, nil
		}
		if !ok || e.Address != address {
			continue
		}
		i := slices.Index(hsdirs, e.HSDir)
		if i < 0 || !errors.Is(results[i].Err, errNoEvent) {
			continue
		}
		switch e.Action {
		case ActionUploaded:
			results[i].Err = nil
			open--
		case ActionFailed:
			results[i].Err = &RejectedError{Reason: e.Reason}
			open--
		}
	}
	return results, nil
}

// Fetch has tor fetch the descriptor of an address from one HSDir and returns
// it undecrypted.
func (t *Tor) Fetch(ctx context.Context, address, hsdir string) (string, error) {
	id, err := shortAddress(address)
	if err != nil {
		return "", err
	}
	if relayID("$"+hsdir) != hsdir {
		return "", fmt.Errorf("HSDir %q is not 40 hexadecimal digits", hsdir)
	}
	sub := t.Subscribe(eventQueue)
	defer sub.Close()
	if err := t.command(ctx, "HSFETCH", func(c *control.Conn) error {
		_, err := c.SendRequest("HSFETCH %s SERVER=%s", id, hsdir)
		return err
	}); err != nil {
		return "", fmt.Errorf("fetch descriptor of %s: %w", address, err)
	}
	reason := "NOT_FOUND"
	for {
		event, err := sub.Next(ctx)
		if err != nil {
			return "", fmt.Errorf("fetch descriptor of %s from %s: %w", address, hsdir, err)
		}
		switch e := event.(type) {
		case Disconnected:
			return "", fmt.Errorf("fetch descriptor of %s from %s: %w", address, hsdir, ErrNotConnected)
		case HSDesc:
			if e.Address == address && e.HSDir == hsdir && e.Action == ActionFailed {
				reason = e.Reason
			}
		case HSDescContent:
			if e.Address != address || e.HSDir != hsdir {
				continue
			}
			if e.Text == "" {
				return "", fmt.Errorf("fetch descriptor of %s from %s: %w", address, hsdir, &RejectedError{Reason: reason})
			}
			return e.Text, nil
		}
	}
}

// Dial connects to host:port, an onion address as a rule. Connections of
// different isolation words share no circuit.
func (t *Tor) Dial(ctx context.Context, isolation, address string) (net.Conn, error) {
	network, socks, err := splitAddress(t.o.socksAddress())
	if err != nil {
		return nil, &DialError{Address: address, Err: err}
	}
	d, err := proxy.SOCKS5(network, socks, &proxy.Auth{User: isolation, Password: "-"}, &net.Dialer{})
	if err != nil {
		return nil, &DialError{Address: address, Err: err}
	}
	conn, err := d.(proxy.ContextDialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, &DialError{Address: address, Err: socksReason(err)}
	}
	return conn, nil
}

// DialPrivate is Dial to a service under restricted discovery, with a key that
// it knows. To one that is open to all the key is of no use and does no harm.
func (t *Tor) DialPrivate(ctx context.Context, isolation, address string, key *ecdh.PrivateKey) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, &DialError{Address: address, Err: err}
	}
	for again := true; ; again = false {
		if err := t.authorize(ctx, host, key); err != nil {
			return nil, &DialError{Address: address, Err: err}
		}
		conn, err := t.Dial(ctx, isolation, address)
		// The key may have been forgotten before the descriptor came.
		if !again || !errors.Is(err, errNeedKey) {
			return conn, err
		}
	}
}
