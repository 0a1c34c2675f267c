package loadbench

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	cryptorand "crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/big"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skein-project/skein/load"
	"github.com/skein-project/skein/load/engine"
	"github.com/skein-project/skein/load/h1"
	"github.com/skein-project/skein/load/report"
	"github.com/skein-project/skein/load/room"
)

// Roles make a program of this module the target, or skein's client.
const (
	TargetRole = "load-target"
	ClientRole = "load-client"
	BareRole   = "load-bare"
)

// Kinds of targets: plain, with TLS, and with TLS and HTTP/2.
const (
	plain  = "plain"
	secure = "tls"
	second = "h2"
)

// body is what the target answers, 102 bytes.
const body = `{"ok":true,"token":"t-1","items":[{"id":1,"name":"needle"},{"id":2,"name":"thread"}],"total":2,"x":1}` + "\n"

// freezeAfter and freezeFor: /freeze stands still so long after its first request.
const (
	freezeAfter = 5 * time.Second
	freezeFor   = time.Second
)

// Target serves until its input ends; it says its address first.
func Target(args []string, in io.Reader, out io.Writer) int {
	kind := plain
	if len(args) > 0 {
		kind = args[0]
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, "target:", err)
		return 1
	}
	said := l.Addr()
	if kind != plain {
		cert, err := certificate()
		if err != nil {
			fmt.Fprintln(os.Stderr, "target:", err)
			return 1
		}
		protos := []string{"http/1.1"}
		if kind == second {
			protos = []string{"h2", "http/1.1"}
		}
		l = tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: protos, MinVersion: tls.VersionTLS13})
	}
	var slow delays
	var firsts firsts
	began := make(chan time.Time, 1) // when /freeze was asked first
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, body)
	})
	mux.HandleFunc("/freeze", func(w http.ResponseWriter, r *http.Request) {
		var first time.Time
		select {
		case first = <-began:
		default:
			first = time.Now()
		}
		select {
		case began <- first:
		default:
		}
		if since := time.Since(first) - freezeAfter; since >= 0 && since < freezeFor {
			select {
			case <-time.After(freezeFor - since):
			case <-r.Context().Done():
			}
		}
		_, _ = io.WriteString(w, body)
	})
	mux.HandleFunc("/lognormal", slow.serve)
	mux.HandleFunc("/quantiles", slow.tell)
	mux.HandleFunc("/first", firsts.serve)
	mux.HandleFunc("/spread", firsts.tell)
	s := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() {
		_, _ = io.Copy(io.Discard, in)
		_ = s.Close()
	}()
	fmt.Fprintln(out, said)
	_ = s.Serve(l)
	return 0
}

// scenario is what a request of the comparison does: a template, two checks, a value
// of the answer.
const scenario = `
traffic.main = { flow = "main", %s }
grace = "2s"
[[flow.main]]
get = "%s?n=${random(1, 1000000)}"
check = ["status == 200", "json('$.ok') == true"]
extract.token = { json = "$.token" }
`

// Client runs skein's engine: URL, users, rate (0: closed), seconds. It prints the report.
func Client(args []string, out io.Writer) int {
	if len(args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: load-client URL USERS RATE SECONDS")
		return 2
	}
	traffic := fmt.Sprintf(`users = %s, for = "%ss"`, args[1], args[3])
	if args[2] != "0" {
		traffic = fmt.Sprintf(`rate = %s, max_users = %s, for = "%ss"`, args[2], args[1], args[3])
	}
	s, err := load.Parse(fmt.Sprintf(scenario, traffic, args[0]))
	if err != nil {
		fmt.Fprintln(os.Stderr, "client:", err)
		return 1
	}
	p, err := s.Compile(load.Inputs{})
	if err != nil {
		fmt.Fprintln(os.Stderr, "client:", err)
		return 1
	}
	room.Thrift(p)                                                                                                                   // as skein load run does
	e, err := engine.New(engine.Options{Plan: p, Seed: 1, TLS: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}}) //nolint:gosec // the target of the comparison
	if err != nil {
		fmt.Fprintln(os.Stderr, "client:", err)
		return 1
	}
	r, err := e.Run(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, "client:", err)
		return 1
	}
	if err := json.NewEncoder(out).Encode(report.New(p, r)); err != nil {
		fmt.Fprintln(os.Stderr, "client:", err)
		return 1
	}
	return 0
}

// Bare is what the engine is compared with: URL, users, seconds. It prints how many requests
// were answered.
func Bare(args []string, out io.Writer) int {
	if len(args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: load-bare URL USERS SECONDS")
		return 2
	}
	origin, target, err := load.SplitURL(args[0])
	if err != nil {
		fmt.Fprintln(os.Stderr, "client:", err)
		return 2
	}
	users, _ := strconv.Atoi(args[1])
	length, _ := strconv.Atoi(args[2])
	until := time.Now().Add(time.Duration(length) * time.Second)
	var wait sync.WaitGroup
	var sum atomic.Uint64
	for range users {
		wait.Go(func() {
			raw, err := net.Dial("tcp", origin.Host)
			if err != nil {
				return
			}
			c := h1.NewConn(raw)
			defer c.Close()
			r := &h1.Request{Bytes: []byte("GET " + target + " HTTP/1.1\r\nHost: " + origin.Host + "\r\nUser-Agent: bare\r\n\r\n"), Deadline: until.Add(time.Minute)}
			var answer h1.Response
			for n := uint64(0); ; n++ {
				if t, err := c.Do(r, &answer); err != nil || t.End.After(until) {
					sum.Add(n)
					return
				}
			}
		})
	}
	wait.Wait()
	fmt.Fprintln(out, sum.Load())
	return 0
}

// delays are those of /lognormal: around 20 ms.
type delays struct {
	mu  sync.Mutex
	all []float64 // seconds, as they were
}

func (d *delays) serve(w http.ResponseWriter, _ *http.Request) {
	begin := time.Now()
	time.Sleep(time.Duration(20 * float64(time.Millisecond) * math.Exp(rand.NormFloat64()/2)))
	_, _ = io.WriteString(w, body)
	took := time.Since(begin).Seconds()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all = append(d.all, took)
}

func (d *delays) tell(w http.ResponseWriter, _ *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	slices.Sort(d.all)
	at := func(q float64) float64 { return d.all[int(q*float64(len(d.all)-1))] }
	if len(d.all) > 0 {
		_ = json.NewEncoder(w).Encode([]float64{at(0.5), at(0.95), at(0.99)})
	}
}

// firsts are when the first request of each connection came, of those that /spread was not asked
// about yet.
type firsts struct {
	mu sync.Mutex
	at map[string]time.Time
}

func (f *firsts) serve(w http.ResponseWriter, r *http.Request) {
	now := time.Now()
	f.mu.Lock()
	if f.at == nil {
		f.at = map[string]time.Time{}
	}
	if _, known := f.at[r.RemoteAddr]; !known {
		f.at[r.RemoteAddr] = now
	}
	f.mu.Unlock()
	_, _ = io.WriteString(w, body)
}

// spread is between how many connections how much time lay.
type spread struct {
	Connections int     `json:"connections"`
	Seconds     float64 `json:"seconds"`
}

func (f *firsts) tell(w http.ResponseWriter, _ *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := spread{Connections: len(f.at)}
	var first, last time.Time
	for _, at := range f.at {
		if first.IsZero() || at.Before(first) {
			first = at
		}
		if at.After(last) {
			last = at
		}
	}
	out.Seconds = last.Sub(first).Seconds()
	f.at = nil
	_ = json.NewEncoder(w).Encode(out)
}

// certificate is one that nobody has to trust.
func certificate() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), cryptorand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	t := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(cryptorand.Reader, t, t, key.Public(), key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

func text(n int) string { return strconv.Itoa(n) }
