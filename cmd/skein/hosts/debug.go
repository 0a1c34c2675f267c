package hosts

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/present"
)

// Bounds of a bundle.
const (
	debugTime    = 30 * time.Second // for one host
	debugAtOnce  = 8
	maxDebugSize = 64 << 20 // of all files, before they are packed
	maxDebugFile = 64       // files of a host
)

func debugCommand(a *cli.App) *cobra.Command {
	return cli.Group("debug", "Look for a fault", debugBundle(a))
}

func debugBundle(a *cli.App) *cobra.Command {
	var b bundling
	ask := &b.ask
	cmd := &cobra.Command{
		Use: "bundle", Short: "Gather what the hosts know of themselves into one file", Args: cli.Exactly(0, ""),
		Long: "Asks each host for its views, metrics, last warnings, goroutines and heap, and writes\n" +
			"them into one tar.gz for whoever looks for a fault; of this host also the events of\n" +
			"the log since then, which `skein log verify FILE` proves anywhere. There are no keys,\n" +
			"tokens or passwords in it; names, addresses and jobs of the cluster are. manifest.json\n" +
			"has the hash of each file, and which hosts did not answer. For administrators, on the\n" +
			"socket; on a host that is no sponsor the others want an operator's key as well. With\n" +
			"--pseudonyms hosts, users, zones, the cluster, addresses and domains have other\n" +
			"names, each the same everywhere; the log then proves nothing any more.",
		Example: "  skein debug bundle\n  skein debug bundle --nodes n1,n3 --since 24h --out slow.tar.gz\n" +
			"  skein --key olga.key debug bundle",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if ask.Profile < 0 || ask.Profile > api.MaxDebugProfile {
				return cli.Usagef("--profile is %s, at most %s are allowed", ask.Profile, api.MaxDebugProfile)
			}
			if ask.Since < time.Second || ask.Since > api.MaxDebugSince {
				return cli.Usagef("--since is %s, want 1s to %s", ask.Since, api.MaxDebugSince)
			}
			c, err := a.Client()
			if err != nil {
				return err
			}
			defer c.Close()
			return b.run(a, cmd.Context(), c)
		},
	}
	cmd.Flags().StringVar(&b.nodes, "nodes", "all", "all, self, or names with commas")
	cmd.Flags().DurationVar(&ask.Since, "since", time.Hour, "warnings and events of so long back")
	cmd.Flags().DurationVar(&ask.Profile, "profile", api.MaxDebugProfile, "where each host's processor is, over so long; 0: not")
	cmd.Flags().BoolVar(&b.pseudonyms, "pseudonyms", false, "other names for hosts, users and addresses; which is which is in NAME.names.json beside NAME.tar.gz")
	cmd.Flags().StringVar(&b.out, "out", "", "file to write, which must not exist (default: skein-debug-TIME.tar.gz)")
	return cmd
}

// bundleHost is what one host gave.
type bundleHost struct {
	Node    cluster.NodeID `json:"node"`
	Version string         `json:"version,omitempty"`
	Error   string         `json:"error,omitempty"` // it was not reached
	Files   []bundleFile   `json:"files"`
	texts   [][]byte
	err     error // as Error
}

// bundleFile is one file of the manifest.
type bundleFile struct {
	Name   string `json:"name"`
	Size   int    `json:"size"`
	SHA256 string `json:"sha256,omitempty"`
	Error  string `json:"error,omitempty"` // it is missing, or cut
}

// bundling is what one call of the command is to do.
type bundling struct {
	nodes, out string
	ask        api.DebugAsk
	pseudonyms bool
}

// created is a file that was not there before. It goes again unless it is kept.
func created(name string) (f *os.File, done func(error) error, err error) {
	f, err = os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil, nil, cli.Failf(cli.ExitFailed, "write bundle: %s", err).WithHint("it is never written over: name another with --out, or remove it")
	}
	if err != nil {
		return nil, nil, fmt.Errorf("write bundle: %w", err)
	}
	return f, func(err error) error {
		if closed := f.Close(); err == nil {
			err = closed
		}
		if err == nil {
			return nil
		}
		_ = os.Remove(name) // half of it is of no use
		return fmt.Errorf("write bundle: %w", err)
	}, nil
}

func (b bundling) run(a *cli.App, ctx context.Context, c *api.Client) error {
	nodes, self, err := bundleNodes(a, ctx, c, b.nodes)
	if err != nil {
		return err
	}
	at := time.Now().UTC()
	if b.out == "" {
		b.out = "skein-debug-" + at.Format("20060102T150405Z") + ".tar.gz"
	}
	f, done, err := created(b.out) // before anybody is asked
	if err != nil {
		return err
	}
	if b.ask.Profile > 0 && a.ErrWidth > 0 { // who waits at a terminal wants to know for what
		a.Note("asking %s, each with a profile of %s", present.Plural(len(nodes), "host"), b.ask.Profile)
	}
	hosts := make([]bundleHost, len(nodes))
	slots := make(chan struct{}, debugAtOnce)
	var asking sync.WaitGroup
	for i, node := range nodes {
		asking.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			hosts[i] = bundleOf(a, ctx, c, node, node == self, b.ask)
		})
	}
	asking.Wait()
	if err := refused(hosts); err != nil {
		_ = done(err) // nothing is to be written
		return err
	}
	unreached := 0
	for _, h := range hosts {
		if h.Error != "" {
			unreached++
			a.Note("%s is not in it: %s", h.Node, h.Error)
			a.Code = cli.ExitDegraded
		}
	}
	if b.pseudonyms {
		err = b.disguise(a, ctx, c, nodes, hosts)
	}
	if err == nil {
		err = writeBundle(f, at, b, hosts)
	}
	if err = done(err); err != nil {
		return err
	}
	fmt.Fprintln(a.Out, b.out)
	if len(hosts) == 1 && unreached == 1 {
		a.Code = cli.ExitFailed
	}
	return nil
}

// refused is why no host gave anything to who asks: none of them may.
func refused(hosts []bundleHost) error {
	var last error
	for _, h := range hosts {
		if last = h.err; !api.IsCode(last, api.CodeForbidden) {
			return nil
		}
	}
	return last
}

// disguise replaces the names in what hosts gave, and writes which they were beside the
// bundle.
func (b bundling) disguise(a *cli.App, ctx context.Context, c *api.Client, nodes []cluster.NodeID, hosts []bundleHost) error {
	list := strings.TrimSuffix(b.out, ".tar.gz") + ".names.json"
	f, done, err := created(list)
	if err != nil {
		return err
	}
	names, err := namesOf(a, ctx, c, nodes)
	if err == nil {
		disguise(names, hosts)
		err = writeNames(f, names)
	}
	if err = done(err); err == nil {
		a.Note("which name is which is in %s: keep that", list)
	}
	return err
}

// bundleNodes are the hosts to ask, and which of them answers.
func bundleNodes(a *cli.App, ctx context.Context, c *api.Client, nodes string) (names []cluster.NodeID, self cluster.NodeID, err error) {
	ctx, cancel := a.Limited(ctx)
	defer cancel()
	m, err := c.Members(ctx)
	if err != nil {
		return nil, "", err
	}
	for _, x := range m.Members {
		if nodes == "all" || nodes == "self" && x.Self {
			names = append(names, x.Node)
		}
		if x.Self {
			self = x.Node
		}
	}
	if nodes == "all" || nodes == "self" {
		return names, self, nil
	}
	for name := range strings.SplitSeq(nodes, ",") {
		node, err := cluster.ParseNodeID(name)
		if err != nil {
			return nil, "", cli.Usagef("--nodes: %s", err)
		}
		if !slices.ContainsFunc(m.Members, func(x api.Member) bool { return x.Node == node }) {
			return nil, "", cli.Usagef("--nodes: %s is no member", node).WithHint("see `skein members`")
		}
		if !slices.Contains(names, node) {
			names = append(names, node)
		}
	}
	return names, self, nil
}

// bundleOf asks one host.
func bundleOf(a *cli.App, ctx context.Context, c *api.Client, node cluster.NodeID, self bool, ask api.DebugAsk) bundleHost {
	h := bundleHost{Node: node, Files: []bundleFile{}}
	ctx, cancel := context.WithTimeout(ctx, debugTime)
	defer cancel()
	of := node
	if self {
		of, ask.Log = "", true
	}
	d, err := c.Debug(ctx, of, ask)
	if err != nil {
		_, h.Error, _ = a.Classify(ctx, err)
		h.err = err
		return h
	}
	h.Version = d.Version
	h.take(d.Files, self)
	return h
}

var fileName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,40}\.[a-z]{1,8}$`)

// take unpacks files that a host sent: it may send anything. The log of the host that was
// asked has room of its own.
func (h *bundleHost) take(files []api.DebugFile, self bool) {
	left := int64(api.MaxDebugHost)
	for _, f := range files[:min(len(files), maxDebugFile)] {
		if !fileName.MatchString(f.Name) || slices.ContainsFunc(h.Files, func(x bundleFile) bool { return x.Name == f.Name }) {
			continue
		}
		file := bundleFile{Name: f.Name, Error: f.Error}
		var text []byte
		if len(f.Gzip) > 0 {
			var err error
			most := left
			if f.Name == api.DebugLogFile && self {
				most = api.MaxDebugLog
			}
			if text, err = unpack(f.Gzip, most); err != nil {
				text, file.Error = nil, err.Error()
			}
		}
		if f.Name != api.DebugLogFile || !self {
			left -= int64(len(text))
		}
		file.Size = len(text)
		h.Files, h.texts = append(h.Files, file), append(h.texts, text)
	}
}

func unpack(packed []byte, most int64) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("unpack: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(r, most+1))
	if err != nil {
		return nil, fmt.Errorf("unpack: %w", err)
	}
	if int64(len(text)) > most {
		return nil, errors.New("larger than a host may give")
	}
	return text, nil
}

// writeBundle writes the files of all hosts that there is room for, and the manifest last.
func writeBundle(w io.Writer, at time.Time, b bundling, hosts []bundleHost) error {
	packed := gzip.NewWriter(w)
	archive := tar.NewWriter(packed)
	write := func(name string, text []byte) error {
		if err := archive.WriteHeader(&tar.Header{Name: path.Join("skein-debug", name), Mode: 0o600, Size: int64(len(text)), ModTime: at}); err != nil {
			return err
		}
		_, err := archive.Write(text)
		return err
	}
	left := maxDebugSize
	for i := range hosts {
		h := &hosts[i]
		for j := range h.Files {
			f, text := &h.Files[j], h.texts[j]
			switch {
			case text == nil:
				continue
			case len(text) > left:
				f.Error, f.Size = fmt.Sprintf("left out: a bundle has at most %d bytes", maxDebugSize), 0
				continue
			}
			left -= len(text)
			f.SHA256 = fmt.Sprintf("%x", sha256.Sum256(text))
			if err := write(path.Join(string(h.Node), f.Name), text); err != nil {
				return err
			}
		}
	}
	manifest, err := json.MarshalIndent(struct {
		CreatedAt    time.Time    `json:"created_at"`
		SinceSeconds float64      `json:"since_seconds"` // how far back warnings and events go
		Pseudonyms   bool         `json:"pseudonyms,omitempty"`
		Hosts        []bundleHost `json:"hosts"`
	}{at, b.ask.Since.Seconds(), b.pseudonyms, hosts}, "", " ")
	if err != nil {
		return err
	}
	if err := write("manifest.json", append(manifest, '\n')); err != nil {
		return err
	}
	if err := archive.Close(); err != nil {
		return err
	}
	return packed.Close()
}
