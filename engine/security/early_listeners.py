"""Checks which listeners open before the rules of access control are loaded (KIP-801)."""

from typing import Final

from bowstring.engine.configs import BrokerConfigs, ConfigError

_SETTING: Final = "early.start.listeners"


def check_early_listeners(configs: BrokerConfigs, *, has_authorizer: bool) -> None:
    """Refuses a setting that differs from what a node does: listeners of controllers open before the rules
    are loaded, because the quorum that has the rules needs them; brokers' listeners open afterwards.

    Raises:
        ConfigError: The setting names no such listener; or, with an authorizer, a listener of brokers, or not
            those of this node's controller.
    """
    names = configs.value(_SETTING)
    if names is None:
        return
    early = {name.strip().upper() for name in names if name.strip()}
    of_controllers = {name.strip().upper() for name in configs.value("controller.listener.names")}
    listeners = {text.partition("://")[0].strip().upper() for text in configs.value("listeners")}
    if unknown := sorted(early - listeners - of_controllers):
        raise ConfigError(
            f"{_SETTING} names {', '.join(unknown)}, which neither listeners nor controller.listener.names "
            "has; correct the name"
        )
    if not has_authorizer:
        return
    if of_brokers := sorted(early - of_controllers):
        raise ConfigError(
            f"{_SETTING} names {', '.join(of_brokers)}, but listeners of brokers never open before the rules "
            "of access control are loaded; name listeners of controllers only, or remove the setting"
        )
    late = sorted((of_controllers & listeners) - early)
    if late and "controller" in configs.value("process.roles"):
        raise ConfigError(
            f"{_SETTING} leaves out {', '.join(late)}, but listeners of controllers must open before the "
            "rules of access control are loaded, or no controller could be elected; add them, or remove the "
            "setting"
        )
