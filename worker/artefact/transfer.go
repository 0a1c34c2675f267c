package artefact

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
)

// Proto is the stream protocol's name in the mesh. The caller sends one
// blobRequest and gets one blobReply; after the reply to get the bytes follow.
const Proto = "skein-blob/1"

// Limits of blob streams.
const (
	maxBlobFrame = 4 << 10
	maxServing   = 64              // streams served at once
	blobDial     = 5 * time.Second // to open a stream, beside so many round trips
	dialTrips    = 3
	blobStep     = 15 * time.Second // without progress, beside a round trip
	blobTotal    = 5 * time.Minute  // for one transfer
)

// far is the round trip to a host, as far as it is known.
func (a *Store) far(peer cluster.NodeID) time.Duration {
	if a.opts.RTT == nil {
		return 0
	}
	return a.opts.RTT(peer)
}

// errBlobFrame is wrapped by every decoding error of a blob stream.
var errBlobFrame = errors.New("invalid artefact frame")

// blobRequest asks a host to send an artefact (get), to fetch it from the
// caller and to answer when it is durable there (pull), or whether it has it (has).
type blobRequest struct {
	Op   string       `json:"op"`
	Hash cluster.Hash `json:"hash"`
}

const (
	opGet  = "get"
	opPull = "pull"
	opHas  = "has" // the reply is the size alone, or absent
)

// absent is the size of what a host does not have.
const absent = -1

// blobReply says how many bytes follow, or why not.
type blobReply struct {
	Size  int64  `json:"size"`
	Error string `json:"error,omitempty"`
}

type blobMetrics struct {
	fetched, served prometheus.Counter // bytes
	failures        *prometheus.CounterVec
}

func newBlobMetrics(reg prometheus.Registerer, name string, a *Store) (*blobMetrics, error) {
	m := &blobMetrics{
		fetched: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "skein_" + name + "_fetched_bytes_total", Help: "Bytes of " + name + "s fetched from other hosts.",
		}),
		served: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "skein_" + name + "_served_bytes_total", Help: "Bytes of " + name + "s sent to other hosts.",
		}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "skein_" + name + "_failures_total", Help: "Transfers of " + name + "s that ended with an error, by side.",
		}, []string{"side"}),
	}
	used := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "skein_" + name + "_used_bytes", Help: "Size of the " + name + " store.",
	}, func() float64 { n, _ := a.Used(); return float64(n) })
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.fetched, m.served, m.failures, used} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register artefact metrics: %w", err)
		}
	}
	return m, nil
}

func writeBlobFrame(w io.Writer, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode artefact frame: %w", err)
	}
	buf := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(b)), uint32(len(b)))
	_, err = w.Write(append(buf, b...))
	return err
}

func readBlobFrame(r io.Reader, v any) error {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxBlobFrame {
		return fmt.Errorf("%w: %d bytes, at most %d are allowed", errBlobFrame, n, maxBlobFrame)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%w: %w", errBlobFrame, err)
	}
	return nil
}

// Serve answers one request on conn and closes it. It is the handler of
// protocol Proto; from has been authenticated.
func (a *Store) Serve(ctx context.Context, from cluster.NodeID, conn net.Conn) {
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, blobTotal)
	defer cancel()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	step := blobStep + a.far(from)
	_ = conn.SetDeadline(time.Now().Add(step)) // ctx closes it at the latest

	var req blobRequest
	err := readBlobFrame(conn, &req)
	if err == nil {
		select {
		case a.serving <- struct{}{}:
			err = a.answer(ctx, from, conn, req)
			<-a.serving
		default:
			err = writeBlobFrame(conn, blobReply{Error: "busy, ask again later"})
		}
	}
	if err != nil {
		a.m.failures.WithLabelValues("serve").Inc()
		a.log.Debug().Err(err).Str("peer", string(from)).Str("artefact", req.Hash.String()).Msg("artefact not served")
	}
}

func (a *Store) answer(ctx context.Context, from cluster.NodeID, conn net.Conn, req blobRequest) error {
	switch req.Op {
	case opGet:
		f, size, err := a.openAny(req.Hash)
		if err != nil {
			return errors.Join(err, writeBlobFrame(conn, blobReply{Error: job.ReasonOf(err)}))
		}
		defer f.Close()
		if err := writeBlobFrame(conn, blobReply{Size: size}); err != nil {
			return err
		}
		n, err := io.Copy(pacedWriter{conn, blobStep + a.far(from)}, io.LimitReader(f, size))
		a.m.served.Add(float64(n))
		return err
	case opHas:
		size, err := a.size(req.Hash)
		if errors.Is(err, ErrNotFound) {
			size, err = absent, nil
		}
		if err != nil {
			return errors.Join(err, writeBlobFrame(conn, blobReply{Error: job.ReasonOf(err)}))
		}
		return writeBlobFrame(conn, blobReply{Size: size})
	case opPull:
		// The caller waits as long as the fetch makes progress.
		_ = conn.SetDeadline(time.Time{})
		reply := blobReply{}
		err := a.Fetch(ctx, req.Hash, []cluster.NodeID{from})
		if err != nil {
			reply.Error = job.ReasonOf(err)
		}
		_ = conn.SetWriteDeadline(time.Now().Add(blobStep + a.far(from)))
		return errors.Join(err, writeBlobFrame(conn, reply))
	}
	err := fmt.Errorf("%w: unknown operation", errBlobFrame)
	return errors.Join(err, writeBlobFrame(conn, blobReply{Error: err.Error()}))
}

// openAny opens what is stored here or beside.
func (a *Store) openAny(h cluster.Hash) (*os.File, int64, error) {
	f, size, err := a.Open(h)
	if errors.Is(err, ErrNotFound) && a.opts.Beside != nil {
		return a.opts.Beside.Open(h)
	}
	return f, size, err
}

// size looks on the disk, from which somebody may have removed it.
func (a *Store) size(h cluster.Hash) (int64, error) {
	f, size, err := a.openAny(h)
	if err != nil {
		return 0, err
	}
	return size, f.Close()
}

// pacedWriter and pacedReader move the deadline with every step.
type pacedWriter struct {
	net.Conn
	step time.Duration
}

func (c pacedWriter) Write(b []byte) (int, error) {
	_ = c.SetWriteDeadline(time.Now().Add(c.step))
	return c.Conn.Write(b)
}

type pacedReader struct {
	net.Conn
	step time.Duration
}

func (c pacedReader) Read(b []byte) (int, error) {
	_ = c.SetReadDeadline(time.Now().Add(c.step))
	return c.Conn.Read(b)
}

// Fetch makes h available here: at once if it is stored, else from the hosts
// in from, then from every peer. One fetch per artefact runs at a time; others
// wait for it. It returns ErrNotFound, in a list of what each host said, when
// nobody has it.
func (a *Store) Fetch(ctx context.Context, h cluster.Hash, from []cluster.NodeID) error {
	for {
		a.mu.Lock()
		if _, ok := a.sizes[h]; ok {
			a.mu.Unlock()
			return nil
		}
		under, busy := a.fetches[h]
		if !busy {
			under = make(chan struct{})
			a.fetches[h] = under
		}
		a.mu.Unlock()
		if !busy {
			err := a.fetch(ctx, h, from)
			a.mu.Lock()
			delete(a.fetches, h)
			a.mu.Unlock()
			close(under)
			return err
		}
		select {
		case <-under: // look again: it may have failed for reasons of its own caller
		case <-ctx.Done():
			return fmt.Errorf("fetch artefact %s: %w", h, ctx.Err())
		}
	}
}

func (a *Store) fetch(ctx context.Context, h cluster.Hash, from []cluster.NodeID) error {
	ctx, cancel := context.WithTimeout(ctx, blobTotal)
	defer cancel()
	if a.opts.Source != nil {
		return a.fetchSource(ctx, h)
	}
	if a.fetchNear(ctx, h, from) {
		return nil
	}
	var errs []error
	asked := map[cluster.NodeID]bool{}
	for _, peers := range [][]cluster.NodeID{from, a.opts.Peers()} {
		for _, p := range peers {
			if asked[p] {
				continue
			}
			asked[p] = true
			err := a.fetchFrom(ctx, h, p)
			if err == nil {
				a.log.Debug().Str("peer", string(p)).Str("artefact", h.String()).Msg("artefact fetched")
				return nil
			}
			a.m.failures.WithLabelValues("fetch").Inc()
			errs = append(errs, fmt.Errorf("from %s: %w", p, err))
			var quota *QuotaError
			if ctx.Err() != nil || errors.As(err, &quota) {
				return fmt.Errorf("fetch artefact %s: %w", h, errors.Join(errs...))
			}
		}
	}
	if len(errs) == 0 {
		return fmt.Errorf("fetch artefact %s: %w: no host to ask", h, ErrNotFound)
	}
	return fmt.Errorf("fetch artefact %s: %w: %d hosts asked: %w", h, ErrNotFound, len(asked), errors.Join(errs...))
}

func (a *Store) fetchSource(ctx context.Context, h cluster.Hash) error {
	r, err := a.opts.Source(ctx, h)
	if err == nil {
		defer r.Close()
		_, err = a.store(r, job.MaxModuleBytes, &h)
	}
	if err != nil {
		a.m.failures.WithLabelValues("fetch").Inc()
		return fmt.Errorf("fetch artefact %s: %w", h, err)
	}
	return nil
}

func (a *Store) fetchFrom(ctx context.Context, h cluster.Hash, peer cluster.NodeID) error {
	conn, reply, err := a.ask(ctx, peer, blobRequest{Op: opGet, Hash: h})
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if reply.Size < 0 || reply.Size > job.MaxModuleBytes {
		return fmt.Errorf("%w: %d bytes", ErrTooLarge, reply.Size)
	}
	got := &countingReader{r: io.LimitReader(bufio.NewReaderSize(pacedReader{conn, blobStep + a.far(peer)}, 64<<10), reply.Size)}
	_, err = a.store(got, reply.Size, &h)
	a.m.fetched.Add(float64(got.n))
	if err != nil && got.n < reply.Size && errors.Is(err, ErrCorrupt) {
		err = fmt.Errorf("%d of %d bytes: %w", got.n, reply.Size, io.ErrUnexpectedEOF)
	}
	return err
}

type countingReader struct {
	r io.Reader
	n int64
}

func (c *countingReader) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n += int64(n)
	return n, err
}

// ask sends req to peer and reads its reply. Closing the connection is the
// caller's unless there is an error.
func (a *Store) ask(ctx context.Context, peer cluster.NodeID, req blobRequest) (_ net.Conn, reply blobReply, err error) {
	if a.opts.Dial == nil {
		return nil, reply, errors.New("no way to other hosts")
	}
	rtt := a.far(peer)
	dialCtx, cancel := context.WithTimeout(ctx, blobDial+dialTrips*rtt)
	defer cancel()
	conn, err := a.opts.Dial(dialCtx, peer)
	if err != nil {
		return nil, reply, fmt.Errorf("dial: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	wait := blobStep + rtt
	if req.Op == opPull {
		wait = blobTotal
	}
	_ = conn.SetDeadline(time.Now().Add(wait)) // ctx closes it at the latest
	if err = writeBlobFrame(conn, req); err == nil {
		err = readBlobFrame(conn, &reply)
	}
	if err == nil && reply.Error != "" {
		err = saidError(job.Clip(job.OneLine(reply.Error), cluster.MaxReason))
	}
	if err != nil {
		conn.Close()
		return nil, reply, err
	}
	return conn, reply, nil
}

// saidError is what a host answered instead of what it was asked for.
type saidError string

// Error is what it said.
func (e saidError) Error() string { return string(e) }

// Asked is what became of a question whether a host has something.
type Asked int

// The answers. What a host of an earlier version says, or one that is busy, may mean
// either: it may have it.
const (
	Silent Asked = iota // it could not be asked
	Absent
	Maybe
	Present
)

// Ask asks a host whether it has h; an empty name: this one.
func (a *Store) Ask(ctx context.Context, h cluster.Hash, peer cluster.NodeID) Asked {
	if peer == "" {
		if _, err := a.size(h); errors.Is(err, ErrNotFound) {
			return Absent
		}
		return Present
	}
	conn, reply, err := a.ask(ctx, peer, blobRequest{Op: opHas, Hash: h})
	if _, said := errors.AsType[saidError](err); said {
		return Maybe
	}
	if err != nil {
		return Silent
	}
	conn.Close()
	if reply.Size == absent {
		return Absent
	}
	return Present
}

// Spread asks each host in to, all at once, to fetch h from here and to store
// it durably. It returns those that did, in the order of to.
func (a *Store) Spread(ctx context.Context, h cluster.Hash, to []cluster.NodeID) []cluster.NodeID {
	done := make([]bool, len(to))
	var all sync.WaitGroup
	for i, peer := range to {
		all.Go(func() {
			conn, _, err := a.ask(ctx, peer, blobRequest{Op: opPull, Hash: h})
			if err != nil {
				a.m.failures.WithLabelValues("spread").Inc()
				a.log.Debug().Err(err).Str("peer", string(peer)).Str("artefact", h.String()).Msg("artefact not spread")
				return
			}
			conn.Close()
			done[i] = true
		})
	}
	all.Wait()
	var ok []cluster.NodeID
	for i, peer := range to {
		if done[i] {
			ok = append(ok, peer)
		}
	}
	return ok
}
