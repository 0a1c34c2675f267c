package workers

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/present"
)

// Reserve keeps slots of zones for somebody.
func Reserve(a *cli.App) *cobra.Command {
	return cli.Group("reserve", "Slots of zones that are kept for somebody's jobs", reserveList(a), reserveSet(a), reserveRemove(a))
}

func reserveList(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List the reservations that have not ended", Args: cli.Exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.WithClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				list, raw, err := cli.Fetch[api.Reservations](ctx, c, "/v1/reservations")
				if err != nil {
					return err
				}
				return a.Show(cli.View{Raw: raw, Body: list, Items: cli.Items(list.Reservations), Table: func() present.Table { return present.Reservations(list) }})
			})
		},
	}
}

func reserveSet(a *cli.App) *cobra.Command {
	var req api.ReservationRequest
	var until time.Duration
	cmd := &cobra.Command{
		Use: "set NAME", Short: "Keep slots of a zone for the jobs of one owner, or change that",
		Long: "Until then these slots of the zone go to nobody else; all reservations together keep at most\n" +
			"half of a zone's slots. What runs is not taken back: slots that are in use are kept once\n" +
			"they become free. Only operators reserve.",
		Example: "  skein reserve set nightly --owner user:ann --zone eu --slots 8 --until 6h",
		Args:    cli.Exactly(1, "a name for the reservation"),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case req.Owner == "":
				return cli.Usagef("--owner is missing").WithHint("whose jobs the slots are for, like user:ann")
			case req.Zone == "":
				return cli.Usagef("--zone is missing").WithHint("`skein zones` lists them")
			case req.Slots < 1:
				return cli.Usagef("--slots is %d, want 1 or more", req.Slots)
			case until < time.Second:
				return cli.Usagef("--until is %s, want 1s or more", until).WithHint("how long from now, like 6h")
			}
			req.Until = time.Now().Add(until).UTC().Truncate(time.Second)
			return a.WithClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				r, err := c.Reserve(ctx, args[0], req)
				if err != nil {
					return err
				}
				if a.Output == "json" || a.Output == "jsonl" {
					return a.Show(cli.View{Body: r})
				}
				a.Note("%s of zone %s are kept for %s until %s", present.Plural(r.Slots, "slot"), r.Zone, r.Owner, present.Stamp(r.Until))
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&req.Owner, "owner", "", "whose jobs the slots are for, like user:ann")
	cmd.Flags().StringVar(&req.Zone, "zone", "", "zone")
	cmd.Flags().IntVar(&req.Slots, "slots", 0, "how many slots")
	cmd.Flags().DurationVar(&until, "until", 0, "how long from now")
	return cmd
}

func reserveRemove(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "rm NAME", Aliases: []string{"remove"}, Short: "End a reservation", Args: cli.Exactly(1, "the name of a reservation"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.WithClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				if err := c.Unreserve(ctx, args[0]); err != nil {
					return err
				}
				a.Note("reservation %s has ended", args[0])
				return nil
			})
		},
	}
}
