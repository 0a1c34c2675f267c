package hosts

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
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
	var nodes, out string
	var profile time.Duration
	cmd := &cobra.Command{
		Use: "bundle", Short: "Gather what the hosts know of themselves into one file", Args: cli.Exactly(0, ""),
		Long: "Asks each host for its views, metrics, last warnings, goroutines and heap, and writes\n" +
			"them into one tar.gz for whoever looks for a fault. There are no keys, tokens or\n" +
			"passwords in it; names, addresses and jobs of the cluster are. manifest.json has the\n" +
			"hash of each file, and which hosts did not answer. For administrators, on the socket.",
		Example: "  skein debug bundle\n  skein debug bundle --nodes n1,n3 --profile 10s --out slow.tar.gz",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if profile < 0 || profile > api.MaxDebugProfile {
				return cli.Usagef("--profile is %s, at most %s are allowed", profile, api.MaxDebugProfile)
			}
			c, err := a.Client()
			if err != nil {
				return err
			}
			defer c.Close()
			return bundle(a, cmd.Context(), c, nodes, out, profile)
		},
	}
	cmd.Flags().StringVar(&nodes, "nodes", "all", "all, self, or names with commas")
	cmd.Flags().DurationVar(&profile, "profile", 0, "also where each host's processor is, over so long")
	cmd.Flags().StringVar(&out, "out", "", "file to write, which must not exist (default: skein-debug-TIME.tar.gz)")
	return cmd
}

// bundleHost is what one host gave.
type bundleHost struct {
	Node    cluster.NodeID `json:"node"`
	Version string         `json:"version,omitempty"`
	Error   string         `json:"error,omitempty"` // it was not reached
	Files   []bundleFile   `json:"files"`
	texts   [][]byte
}

// bundleFile is one file of the manifest.
type bundleFile struct {
	Name   string `json:"name"`
	Size   int    `json:"size"`
	SHA256 string `json:"sha256,omitempty"`
	Error  string `json:"error,omitempty"` // it is missing, or cut
}

func bundle(a *cli.App, ctx context.Context, c *api.Client, nodes, out string, profile time.Duration) error {
	names, self, err := bundleNodes(a, ctx, c, nodes)
	if err != nil {
		return err
	}
	at := time.Now().UTC()
	if out == "" {
		out = "skein-debug-" + at.Format("20060102T150405Z") + ".tar.gz"
	}
	f, err := os.OpenFile(out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) // before anybody is asked
	if err != nil {
		return fmt.Errorf("write bundle: %w", err)
	}
	hosts := make([]bundleHost, len(names))
	slots := make(chan struct{}, debugAtOnce)
	var asking sync.WaitGroup
	for i, node := range names {
		asking.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			hosts[i] = bundleOf(a, ctx, c, node, node == self, profile)
		})
	}
	asking.Wait()
	err = writeBundle(f, at, hosts)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		_ = os.Remove(out) // half of it is of no use
		return fmt.Errorf("write bundle: %w", err)
	}
	for _, h := range hosts {
		if h.Error != "" {
			a.Note("%s is not in it: %s", h.Node, h.Error)
			a.Code = cli.ExitDegraded
		}
	}
	fmt.Fprintln(a.Out, out)
	if len(hosts) == 1 && hosts[0].Error != "" {
		a.Code = cli.ExitFailed
	}
	return nil
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
func bundleOf(a *cli.App, ctx context.Context, c *api.Client, node cluster.NodeID, self bool, profile time.Duration) bundleHost {
	h := bundleHost{Node: node, Files: []bundleFile{}}
	ctx, cancel := context.WithTimeout(ctx, debugTime)
	defer cancel()
	ask := node
	if self {
		ask = ""
	}
	d, err := c.Debug(ctx, ask, profile)
	if err != nil {
		_, h.Error, _ = a.Classify(ctx, err)
		return h
	}
	h.Version = d.Version
	h.take(d.Files)
	return h
}

var fileName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,40}\.[a-z]{1,8}$`)

// take unpacks files that a host sent: it may send anything.
func (h *bundleHost) take(files []api.DebugFile) {
	left := int64(api.MaxDebugHost)
	for _, f := range files[:min(len(files), maxDebugFile)] {
		if !fileName.MatchString(f.Name) || slices.ContainsFunc(h.Files, func(x bundleFile) bool { return x.Name == f.Name }) {
			continue
		}
		file := bundleFile{Name: f.Name, Error: f.Error}
		var text []byte
		if len(f.Gzip) > 0 {
			var err error
			if text, err = unpack(f.Gzip, left); err != nil {
				text, file.Error = nil, err.Error()
			}
		}
		left -= int64(len(text))
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
		return nil, fmt.Errorf("a host gives at most %d bytes", int64(api.MaxDebugHost))
	}
	return text, nil
}

// writeBundle writes the files of all hosts that there is room for, and the manifest last.
func writeBundle(w io.Writer, at time.Time, hosts []bundleHost) error {
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
		CreatedAt time.Time    `json:"created_at"`
		Hosts     []bundleHost `json:"hosts"`
	}{at, hosts}, "", " ")
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
