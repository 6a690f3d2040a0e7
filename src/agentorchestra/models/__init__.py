"""The handler of RequestModel: clients, profiles, prices, scripted and offline models."""
