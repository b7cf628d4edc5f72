"""Values about models: versions, lists, migration to other parties, WOE values. No bytes."""
