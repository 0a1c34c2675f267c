package centrifugo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/centrifugal/centrifuge-go"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/internal/advice"
	"github.com/skein-project/skein/internal/sysclock"
)

// Bounds of an examination.
const (
	examineTime = 2500 * time.Millisecond
	// maxSkew is how far a clock may be off without a word, and badSkew from where workers are
	// not let in as they should be: their tokens are good for TokenLife.
	maxSkew  = 5 * time.Second
	badSkew  = time.Minute
	major    = 5
	mostNode = 20 // whose versions are named
	// unversioned is what one says that was built as a part of another module.
	unversioned = "0.0.0"
)

// Codes of the API's own.
const (
	codeUnknownChannel = 102
	codeNotAvailable   = 108
)

const printed = "start it with what `skein gateway centrifugo-config` prints"

// Server is how to reach a Centrifugo.
type Server struct {
	API, Clients string // URLs: of its API, and where workers connect
	KeyFile      string
	Page         string // URL of the gateway whose page connects there; may be empty
}

// Examine looks at a Centrifugo as a gateway and as a worker would: what it is, what about it is
// not as it should be, or why it cannot serve. What to do about each is an advice.Error. It
// changes nothing there.
func Examine(ctx context.Context, v Server) (what string, warned []error, err error) {
	ctx, cancel := context.WithTimeout(ctx, examineTime)
	defer cancel()
	c := newClient(v.API, &secrets{file: v.KeyFile, most: 1, now: sysclock.Boot})
	defer c.http.CloseIdleConnections()
	f, err := c.look(ctx, time.Now)
	if err != nil {
		return "", nil, err
	}
	if warned, err = f.judge(); err != nil {
		return "", nil, err
	}
	if err := strange(ctx, v.Clients, v.Page); err != nil {
		if v.Page != "" && strange(ctx, v.Clients, "") == nil {
			err = advice.New("it lets no page of "+v.Page+" connect", "its allowed_origins must name that: "+printed+" now, again whenever there is another gateway")
		}
		return "", nil, err
	}
	return fmt.Sprintf("%s at %s: nodes %d, connections %d", f, v.API, f.nodes, f.clients), warned, nil
}

// Connections is how many it keeps, on all of its nodes.
func (v Server) Connections(ctx context.Context) (int, error) {
	c := newClient(v.API, &secrets{file: v.KeyFile, most: 1, now: sysclock.Boot})
	defer c.http.CloseIdleConnections()
	f, err := c.look(ctx, time.Now)
	return f.clients, err
}

// found is what the API says of a Centrifugo.
type found struct {
	clients, nodes int
	versions       []string      // each once
	ahead          time.Duration // its clock, of this host's; 0 if it does not say
	channels       *apiError     // of a worker's channel; nil: they are as they should be
	listeners      *apiError     // of a job's channel, alike
}

// String names it.
func (f found) String() string {
	known := slices.DeleteFunc(slices.Clone(f.versions), func(v string) bool { return v == unversioned })
	if len(known) == 0 {
		return "Centrifugo of a version that it does not know"
	}
	return "Centrifugo " + strings.Join(known, ", ")
}

// look asks the API what there is.
func (c *client) look(ctx context.Context, wall func() time.Time) (f found, err error) {
	answer, at, err := c.ask(ctx, "info", struct{}{})
	if err != nil {
		return f, err
	}
	if f, err = readInfo(answer); err != nil {
		return f, err
	}
	if !at.IsZero() {
		f.ahead = at.Add(time.Second / 2).Sub(wall()) // it says full seconds
	}
	// What was told to a worker that nobody is.
	answer, _, err = c.ask(ctx, "history", map[string]any{"channel": api.WorkChannel + "nobody", "limit": 0})
	if err == nil {
		f.channels, err = readError(answer)
	}
	if err != nil {
		return f, err
	}
	answer, _, err = c.ask(ctx, "history", map[string]any{"channel": api.JobChannel + "nobody", "limit": 0})
	if err == nil {
		f.listeners, err = readError(answer)
	}
	return f, err
}

// readInfo reads what the API says of its nodes.
func readInfo(answer []byte) (f found, err error) {
	var out struct {
		Error  *apiError `json:"error"`
		Result struct {
			Nodes []struct {
				Version string `json:"version"`
				Clients uint32 `json:"num_clients"`
			} `json:"nodes"`
		} `json:"result"`
	}
	switch err := read(answer, &out); {
	case err != nil:
		return f, err
	case out.Error != nil:
		return f, out.Error
	case len(out.Result.Nodes) == 0:
		return f, advice.New("what answers is no Centrifugo: it has no nodes", "centrifugo.api_url must be where Centrifugo has its API")
	}
	for _, x := range out.Result.Nodes {
		f.nodes++
		f.clients += int(x.Clients)
		version := fmt.Sprintf("%.20s", strings.TrimPrefix(x.Version, "v"))
		if !slices.Contains(f.versions, version) && len(f.versions) < mostNode {
			f.versions = append(f.versions, version)
		}
	}
	slices.Sort(f.versions)
	return f, nil
}

// readError reads an answer of which only that it failed matters.
func readError(answer []byte) (*apiError, error) {
	var out struct {
		Error *apiError `json:"error"`
	}
	err := read(answer, &out)
	return out.Error, err
}

// judge says why a Centrifugo cannot serve, or what about it is not as it should be.
func (f found) judge() (warned []error, err error) {
	for _, v := range f.versions {
		if n, err := strconv.Atoi(strings.SplitN(v, ".", 2)[0]); v != "" && v != unversioned && (err != nil || n != major) {
			return nil, advice.New("it is Centrifugo "+v, fmt.Sprintf("a v%d is needed: others do not know its configuration", major))
		}
	}
	switch e := f.channels; {
	case e == nil:
	case e.Code == codeUnknownChannel:
		return nil, advice.New("it knows no channels of workers: its namespaces lack "+strings.TrimSuffix(api.WorkChannel, ":"), printed)
	case e.Code == codeNotAvailable:
		return nil, advice.New("it keeps nothing of what workers were told: its namespace "+strings.TrimSuffix(api.WorkChannel, ":")+" has no history", printed)
	case e.Code == codeInternal:
		return nil, advice.New("it cannot say what workers were told: "+e.Error(), "its log says why: look whether its Redis answers")
	default:
		return nil, fmt.Errorf("what workers were told: %w", e)
	}
	if e := f.listeners; e != nil && e.Code == codeUnknownChannel {
		warned = append(warned, advice.New("it knows no channels of jobs: who listens by an access token is told nothing", printed))
	}
	switch skew := fmt.Sprintf("its clock is %s ahead of this host's", f.ahead.Round(time.Second)); {
	case f.ahead.Abs() > badSkew:
		return nil, advice.New(skew+": workers' tokens have ended too soon, or too late", "set both by NTP")
	case f.ahead.Abs() > maxSkew:
		warned = append(warned, advice.New(skew, "set both by NTP"))
	}
	return warned, nil
}

// strange connects as a gateway's page that shows no token, which a gateway refuses when
// Centrifugo asks it: so workers reach it, and it a gateway, to which it shows the secret. An
// error says what of that is not so.
func strange(ctx context.Context, url, page string) error {
	said := make(chan error, 10)
	tell := func(err error) {
		select {
		case said <- err:
		default: // one was enough
		}
	}
	header := http.Header{}
	if page != "" {
		header.Set("Origin", page)
	}
	c := centrifuge.NewJsonClient(url, centrifuge.Config{ReadTimeout: examineTime, HandshakeTimeout: examineTime, Header: header})
	defer c.Close()
	c.OnDisconnected(func(e centrifuge.DisconnectedEvent) {
		if e.Code == codeInvalidToken {
			tell(nil)
			return
		}
		tell(advice.New(fmt.Sprintf("it refuses clients without a token by itself, with %d %.100s: it asks no gateway", e.Code, e.Reason), printed))
	})
	c.OnConnected(func(centrifuge.ConnectedEvent) {
		tell(advice.New("it lets in who shows no token, and asks no gateway", printed))
	})
	c.OnError(func(e centrifuge.ErrorEvent) {
		if answered, ok := errors.AsType[*centrifuge.Error](e.Error); ok {
			tell(advice.New(fmt.Sprintf("it cannot ask a gateway: %d %.100s", answered.Code, answered.Message),
				"it must reach gateway.internal_listen of a gateway, or the balancer before several, and show there what is in centrifugo.secret_file: "+printed))
			return
		}
		tell(unconnected(e.Error))
	})
	if err := c.Connect(); err != nil {
		return unconnected(err)
	}
	select {
	case err := <-said:
		return err
	case <-ctx.Done():
		return &advice.Error{Err: fmt.Errorf("who connects to centrifugo.ws_url hears nothing: %w", ctx.Err()), Next: "look for a firewall, or for a gateway that does not answer, between"}
	}
}

func unconnected(err error) error {
	return &advice.Error{Err: fmt.Errorf("workers cannot connect to centrifugo.ws_url: %w", err), Next: "centrifugo.ws_url must be where Centrifugo, or a proxy before it, takes WebSockets"}
}
