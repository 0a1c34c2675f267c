package door

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/join/token"
)

// Errors that callers branch on. None changed state.
var (
	// ErrDoor reports an onion address behind which no host passed the join on:
	// its sponsor is out of reach, or the invite is of no sponsor. Retryable.
	ErrDoor = errors.New("no host behind the onion address passed the join on")
	// ErrPin reports a server that does not hold the sponsor's key.
	ErrPin = errors.New("the server does not hold the sponsor's identity key")
	// ErrNoInvite reports an invite id that is not known.
	ErrNoInvite = errors.New("no such invite")
)

// PathPrefix starts the paths of joins.
const PathPrefix = "/.rb/"

// doorProtocol is what a joiner asks to change to: the sponsor's TLS.
const doorProtocol = "skein-join"

// Bounds of a Keeper.
const (
	// doorTime is how long every failure takes, whatever its cause: until then
	// the sponsor must have taken the connection.
	doorTime = 10 * time.Second
	// maxWaiting failures wait at once for their answer; further ones do not.
	maxWaiting = 64
	// maxPassed are passed on at once, maxPassedEach of them by one invite.
	maxPassed     = 16
	maxPassedEach = 4
	passTime      = 2 * time.Minute // of one, in all
	passIdle      = 30 * time.Second
	maxPassBytes  = 256 << 10 // in each direction
	maxDoorAnswer = 4 << 10   // bytes of the answer that a joiner reads
)

// Results at a door; the label of a counter.
const (
	doorPassed  = "passed"
	doorUnknown = "unknown" // no invite of a sponsor, or not a join at all
	doorBusy    = "busy"    // too many by this invite, or in all
	doorAway    = "away"    // the sponsor is out of reach or does not know the invite
	doorFlood   = "flood"   // unknown, and too many of those wait
)

// Options configure a Keeper. All must be set but the last two.
type Options struct {
	// Secret is the one that all members share.
	Secret []byte
	// Sponsors are the members that may have made an invite.
	Sponsors func() []cluster.NodeID
	// Dial opens a stream of Proto to a member, which may be this host.
	Dial       func(ctx context.Context, to cluster.NodeID) (net.Conn, error)
	Logger     zerolog.Logger
	Registerer prometheus.Registerer
}

// Keeper is the handler of POST /.rb/<invite> on a host that the caller did not
// choose, but that an onion address happened to lead to: it passes the connection
// on to the sponsor that made the invite. It sees TLS
// that only that sponsor can answer. Every failure is the same 404 after the
// same time, for as long as not too many come at once.
type Keeper struct {
	o       Options
	log     zerolog.Logger
	waiting chan struct{} // capacity maxWaiting; full: not waited for
	results *prometheus.CounterVec

	mu     sync.Mutex
	passed map[string]int // guarded by mu: by invite
	all    int            // guarded by mu
}

// New returns a Keeper.
func New(o Options) (*Keeper, error) {
	if len(o.Secret) == 0 || o.Sponsors == nil || o.Dial == nil {
		return nil, errors.New("new doorkeeper: secret, sponsors and dialler are required")
	}
	k := &Keeper{
		o: o, log: o.Logger.With().Str("component", "join").Logger(), waiting: make(chan struct{}, maxWaiting), passed: map[string]int{},
		results: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "skein_join_door_total", Help: "Joins that came through an onion address of the cluster, by result.",
		}, []string{"result"}),
	}
	for _, r := range []string{doorPassed, doorUnknown, doorBusy, doorAway, doorFlood} {
		k.results.WithLabelValues(r)
	}
	if o.Registerer != nil {
		if err := o.Registerer.Register(k.results); err != nil {
			return nil, fmt.Errorf("new doorkeeper: %w", err)
		}
	}
	return k, nil
}

// ServeHTTP implements http.Handler.
func (k *Keeper) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// The time begins before anything that depends on who asks.
	fail := time.NewTimer(doorTime)
	defer fail.Stop()
	invite, sponsor, ok := k.whose(r)
	if !ok {
		k.refuse(w, r, fail.C, doorUnknown)
		return
	}
	leave, ok := k.enter(invite)
	if !ok {
		k.refuse(w, r, fail.C, doorBusy)
		return
	}
	defer leave()
	ctx, cancel := context.WithTimeout(r.Context(), doorTime)
	inner, err := k.open(ctx, sponsor, invite)
	cancel()
	if err != nil {
		k.log.Warn().Err(err).Str("peer", string(sponsor)).Str("invite", invite).Msg("join not passed on")
		k.refuse(w, r, fail.C, doorAway)
		return
	}
	defer inner.Close()
	outer, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		k.refuse(w, r, fail.C, doorAway)
		return
	}
	defer outer.Close()
	k.results.WithLabelValues(doorPassed).Inc()
	k.log.Info().Str("peer", string(sponsor)).Str("invite", invite).Msg("join passed on")
	if _, err := io.WriteString(outer, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+doorProtocol+"\r\n\r\n"); err != nil {
		return
	}
	// What the joiner sent early was read already.
	early, _ := buffered.Peek(min(buffered.Reader.Buffered(), maxPassBytes))
	if _, err := inner.Write(early); err != nil {
		return
	}
	pipe(r.Context(), outer, inner)
}

// whose finds the sponsor of a request that asks to be passed on.
func (k *Keeper) whose(r *http.Request) (invite string, sponsor cluster.NodeID, ok bool) {
	invite, _ = strings.CutPrefix(r.URL.Path, PathPrefix)
	sponsor, known := token.SponsorOf(k.o.Secret, invite, k.o.Sponsors())
	ok = known && r.Method == http.MethodPost && r.URL.RawQuery == "" && r.ContentLength == 0 &&
		strings.EqualFold(r.Header.Get("Upgrade"), doorProtocol)
	return invite, sponsor, ok
}

// refuse answers when it is time.
func (k *Keeper) refuse(w http.ResponseWriter, r *http.Request, when <-chan time.Time, result string) {
	select {
	case k.waiting <- struct{}{}:
		k.results.WithLabelValues(result).Inc()
		select {
		case <-when:
		case <-r.Context().Done():
		}
		<-k.waiting
	default:
		k.results.WithLabelValues(doorFlood).Inc()
	}
	NotFound(w)
}

// enter takes a place among those that are passed on.
func (k *Keeper) enter(invite string) (leave func(), ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.all >= maxPassed || k.passed[invite] >= maxPassedEach {
		return nil, false
	}
	k.all++
	k.passed[invite]++
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.all--
		if k.passed[invite]--; k.passed[invite] == 0 {
			delete(k.passed, invite)
		}
	}, true
}

// open gets a connection to the sponsor's join port.
func (k *Keeper) open(ctx context.Context, sponsor cluster.NodeID, invite string) (net.Conn, error) {
	conn, err := k.o.Dial(ctx, sponsor)
	if err != nil {
		return nil, err
	}
	if err := askDoor(ctx, conn, invite); err != nil {
		return nil, errors.Join(fmt.Errorf("ask %s: %w", sponsor, err), conn.Close())
	}
	return conn, nil
}

// Proto is the stream protocol between a Keeper and a sponsor: the
// asker sends the invite's id, 16 bytes, the sponsor one byte 1 if it is one of
// its own, and then both pass on what the joiner and the join port say.
const Proto = "skein-door/1"

func askDoor(ctx context.Context, conn net.Conn, invite string) error {
	deadline, _ := ctx.Deadline() // without one it is zero: none
	if err := conn.SetDeadline(deadline); err != nil {
		return err
	}
	if _, err := io.WriteString(conn, invite); err != nil {
		return err
	}
	var yes [1]byte
	if _, err := io.ReadFull(conn, yes[:]); err != nil {
		return err
	}
	if yes[0] != 1 {
		return fmt.Errorf("answer %d: %w", yes[0], ErrNoInvite)
	}
	return conn.SetDeadline(time.Time{})
}

// pipe copies both ways until one direction ends, stands still or has carried too
// much.
func pipe(ctx context.Context, a, b net.Conn) {
	ctx, cancel := context.WithTimeout(ctx, passTime)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _, _ = a.Close(), b.Close() })
	defer stop()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{a, b}, {b, a}} {
		both.Go(func() {
			defer cancel()
			passOn(way[0], way[1])
		})
	}
	both.Wait()
}

func passOn(to, from net.Conn) {
	buf := make([]byte, 8<<10)
	for left := maxPassBytes; left > 0; {
		if from.SetReadDeadline(time.Now().Add(passIdle)) != nil || to.SetWriteDeadline(time.Now().Add(passIdle)) != nil {
			return
		}
		n, err := from.Read(buf[:min(len(buf), left)])
		left -= n
		if n > 0 {
			if _, werr := to.Write(buf[:n]); werr != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// Through asks the host at the other end of conn to pass it on.
func Through(ctx context.Context, conn net.Conn, addr, invite string) (net.Conn, error) {
	deadline, _ := ctx.Deadline() // without one it is zero: none
	if err := conn.SetDeadline(deadline); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDoor, err)
	}
	host := strings.TrimSuffix(addr, ":80")
	if _, err := fmt.Fprintf(conn, "POST %s%s HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: %s\r\nContent-Length: 0\r\n\r\n",
		PathPrefix, invite, host, doorProtocol); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDoor, err)
	}
	in := bufio.NewReader(io.LimitReader(conn, maxDoorAnswer))
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDoor, err)
	}
	_ = resp.Body.Close() // of a 101 there is none
	if resp.StatusCode != http.StatusSwitchingProtocols {
		return nil, fmt.Errorf("%w: status %d", ErrDoor, resp.StatusCode)
	}
	early, _ := in.Peek(in.Buffered())
	return &earlyConn{Conn: conn, early: early}, conn.SetDeadline(time.Time{})
}

// earlyConn first yields what was read too early.
type earlyConn struct {
	net.Conn
	early []byte
}

// Read implements net.Conn.
func (c *earlyConn) Read(b []byte) (int, error) {
	if len(c.early) > 0 {
		n := copy(b, c.early)
		c.early = c.early[n:]
		return n, nil
	}
	return c.Conn.Read(b)
}

// NotFound is the one answer to every failure.
func NotFound(w http.ResponseWriter) {
	h := w.Header()
	h["Date"] = nil
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Connection", "close")
	w.WriteHeader(http.StatusNotFound)
	_, _ = io.WriteString(w, "404 page not found\n")
}
